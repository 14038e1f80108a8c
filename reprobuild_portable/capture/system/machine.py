"""Facts about the machine."""

from __future__ import annotations

import contextlib
import os
import platform
import re
from typing import List

from reprobuild_portable.capture.files import _text
from reprobuild_portable.capture.model import Context, Taken


def take_machine(context: Context) -> Taken:
    """Capture processor, memory, kernel, limits, control group and release."""
    limits = {}
    with contextlib.suppress(ImportError):
        import resource  # not on Windows

        limits = {
            name[7:].lower(): list(resource.getrlimit(getattr(resource, name)))
            for name in sorted(dir(resource))
            if name.startswith("RLIMIT_")
        }
    cpu = _text("/proc/cpuinfo", 1 << 16)
    names = (
        "vendor_id",
        "model name",
        "cpu family",
        "model",
        "stepping",
        "microcode",
        "flags",
        "CPU part",
        "Features",
    )
    fields = {name: match.group(1) for name in names if (match := re.search(rf"(?m)^{name}\s*: (.*)$", cpu))}
    memory = re.search(r"MemTotal:\s+(\d+) kB", _text("/proc/meminfo"))
    group = _text("/proc/self/cgroup").rpartition("::")[2].split("\n")[0]
    group_limits = {
        name: _text(f"/sys/fs/cgroup{group}/{name}")
        for name in ("cpu.max", "cpuset.cpus.effective", "memory.max")
    }
    about = list(os.uname() if hasattr(os, "uname") else platform.uname()[:5])
    return Taken(
        {
            "host": about[1],
            "uname": about,
            "cpu": {"count": os.cpu_count(), "usable": _usable_cpus(), **fields},
            "memory_bytes": int(memory.group(1)) * 1024 if memory else None,
            "limits": limits,
            "cgroup": {"group": group, **group_limits},
            "huge_pages": _text("/sys/kernel/mm/transparent_hugepage/enabled"),
            "release": dict(re.findall(r'(?m)^([A-Z_]+)="?([^"\n]*)"?$', _text("/etc/os-release"))),
            "container": [
                p for p in ("/.dockerenv", "/run/.containerenv", "/.singularity.d") if os.path.exists(p)
            ],
        }
    )


def _usable_cpus() -> List[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 0))  # macOS, Windows
