"""Writes a file for each disturbance, with what it changes and the others do not."""

import datetime
import json
import os
import sys
import time

OUT = sys.argv[1]


def load() -> bool:
    """Return whether another process used a processor in a second."""

    def used() -> int:
        ticks = 0
        for number in os.listdir("/proc"):
            if number.isdigit() and int(number) != os.getpid():
                try:
                    with open(f"/proc/{number}/stat") as file:
                        fields = file.read().rpartition(")")[2].split()
                except OSError:
                    continue
                ticks += int(fields[11])
        return ticks

    before = used()
    time.sleep(1)
    return used() - before > 20


def held() -> bool:
    """Return whether another process holds more than 100 MB."""
    for number in os.listdir("/proc"):
        if number.isdigit() and int(number) != os.getpid():
            try:
                with open(f"/proc/{number}/statm") as file:
                    pages = int(file.read().split()[1])
            except OSError:
                continue
            if pages * 4096 > 100 << 20:
                return True
    return False


os.makedirs("names")
for name in "abcdefgh":
    open(f"names/{name}", "w").close()
FACTS = {
    "threads": os.environ.get("OMP_NUM_THREADS"),
    "processors": len(os.sched_getaffinity(0)),
    "load": load(),
    "memory": held(),
    "hash-seed": list({f"word{number}" for number in range(20)}),
    "directory-order": [*os.listdir("names"), *(entry.name for entry in os.scandir("names"))],
    "clock": [
        datetime.date.today().year,
        datetime.datetime.now().strftime("%B"),
        time.strftime("%Y-%m", time.gmtime()),
    ],
}
for name, fact in FACTS.items():
    with open(f"{OUT}/{name}.json", "w") as file:
        json.dump(fact, file)
