"""Images of vendors that a snapshot was taken inside: recognised, named, and offered as base."""
