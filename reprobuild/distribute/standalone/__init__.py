"""Programs that are handed over as they are, and need Python alone."""
