"""conda's packages: which ones, from which channel, and what an environment of them sets."""
