"""Programs that are distributed unchanged, and need only Python."""
