"""As many partial sums as the machine seems to have room for: by the memory that is free now."""

import math

import tiny

with open("/proc/meminfo") as file:
    free = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
parts = 16 + free // 4 % 4096
sums = []
for shape in range(16):
    numbers = [math.sin(n + shape) * 10.0 ** (n % 9 - 4) for n in range(10000)]
    sums.append(tiny.total(tiny.total(numbers[part::parts]) for part in range(parts)))
tiny.write("sums.json", sums)
tiny.train(range(64))
