"""The system under the environment: packages, releases, images below it, and what shared libraries need."""
