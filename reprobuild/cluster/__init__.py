"""The smoke test on many nodes: started through a scheduler, gathered, grouped by platform, compared."""
