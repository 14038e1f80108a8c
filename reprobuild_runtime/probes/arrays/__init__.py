"""The determinism tests of an image without torch.

They cover NumPy, and SciPy, scikit-learn, JAX and TensorFlow if the image has them.

`child.py` is the program of one fresh process; the files named after kinds of operations hold the probes.
"""
