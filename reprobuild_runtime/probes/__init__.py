"""The determinism tests: training operations, repeated and compared.

Results are compared byte by byte.

`run.py` is the program; it starts fresh processes of `child.py`, one for each mode and number, and collects their
output. The files named after kinds of operations hold the probes.
"""
