"""The smoke test of an image without torch: NumPy, and SciPy, scikit-learn and JAX where they are in the image.

`child.py` is the program of one fresh process; the files named after kinds of operations hold the probes.
"""
