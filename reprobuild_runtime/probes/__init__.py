"""The smoke test: what training really does, run again and again, and compared byte by byte.

`run.py` is the program; it starts fresh processes of `child.py`, one for each mode and number, and gathers what they
say. The files named after kinds of operations hold the probes.
"""
