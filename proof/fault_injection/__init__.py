"""Error faults, and the checks after them.

Runs are killed, starved of disk, locked out or doubled.
"""
