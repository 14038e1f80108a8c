"""The CUDA of an environment, by evidence, and of torch's build."""
