"""The smoke test of an image without torch: NumPy, and SciPy, scikit-learn, JAX and TensorFlow where it has them.

`child.py` is the program of one fresh process; the files named after kinds of operations hold the probes.
"""
