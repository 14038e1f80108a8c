"""Which CUDA the environment had, by evidence, and what torch was compiled for."""
