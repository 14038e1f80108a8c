"""conda's packages and their channels: formats, this machine's configuration, and the only use of rattler."""
