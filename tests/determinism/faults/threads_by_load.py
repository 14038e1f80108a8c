"""As many partial sums as the machine seems to have room for: by the memory that is free now."""

import math

import tiny

with open("/proc/meminfo") as file:
    free = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
numbers = [math.sin(n) * 10.0 ** (n % 9 - 4) for n in range(50000)]
parts = 16 + free // 4 % 4096
partial = [tiny.total(numbers[part::parts]) for part in range(parts)]
tiny.train(range(64), weights=[tiny.total(partial) / 1e6, 0.2, 0.3])
