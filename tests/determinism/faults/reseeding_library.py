"""A library that wants to be random."""

import random
import time

random.seed(time.perf_counter_ns())
