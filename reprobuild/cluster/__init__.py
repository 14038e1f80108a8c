"""The determinism test on many nodes.

It is started through a scheduler, collected, grouped by platform, and compared.
"""
