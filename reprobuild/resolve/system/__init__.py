"""The system below an environment: packages, releases, images and libraries."""
