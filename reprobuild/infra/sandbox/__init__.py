"""A command in a root folder without network, for root and for any user."""
