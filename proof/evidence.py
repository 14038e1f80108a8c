"""Evidence as dated JSON: findings, machine and hashes.

A hash is that of a module whose code decides the findings.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from msgspec import Struct

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "evidence"
PACKAGES = ("click", "jinja2", "msgspec", "zstandard")


class Kind(Struct, frozen=True, kw_only=True):
    """One kind of evidence: its name, modules and command."""

    name: str
    modules: tuple[str, ...]
    made_by: str


def module_hash(module: str) -> str:
    """Return a hash of the code of a module.

    It shows whether evidence is older than the code.

    `module` is a path from the top level, without `.py`: `reprobuild/lock`. The data beside the code counts.
    """
    folder = ROOT / module
    found = (path for pattern in ("*.py", "*.json") for path in folder.rglob(pattern))
    files = sorted(found) if folder.is_dir() else [folder.with_suffix(".py")]
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def machine() -> dict[str, Any]:
    """Describe the machine behind the findings.

    No value identifies it.
    """
    return {
        "cpu": _line_value(Path("/proc/cpuinfo"), "model name", ":") or platform.machine(),
        "cores": os.cpu_count(),
        "system": _line_value(Path("/etc/os-release"), "PRETTY_NAME", "=") or platform.system(),
        "kernel": platform.release().partition("-")[0],
        "load average": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "commit": _git("rev-parse", "HEAD"),
        "changed files": len(_git("status", "--porcelain").splitlines()),
    }


def document(kind: str, modules: Iterable[str], found: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    """Return a document of evidence.

    Args:
        kind: its name.
        modules: their code decides the findings.
        found: the findings.
        about: the result of `machine`.
    """
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    hashes = {module: module_hash(module) for module in sorted(set(modules))}
    made = {"version": 1, "kind": kind, "date": now, "machine": about, "modules": hashes, **found}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def states(kinds: Sequence[Kind], folder: Path = FOLDER) -> list[str]:
    """Return a line for each kind without current evidence.

    The evidence is missing or older than the code; the line has the command to renew it.
    """
    lines = []
    for kind in kinds:
        newest = _newest(kind.name, folder)
        if newest is None:
            lines.append(f"{kind.name}: no evidence; `{kind.made_by}` makes it")
            continue
        hashes = newest.get("modules", {})
        changed = [module for module in kind.modules if hashes.get(module) != module_hash(module)]
        if changed:
            lines.append(
                f"{kind.name}: evidence of {newest['date'][:10]} is older than the code of {', '.join(changed)}; "
                f"`{kind.made_by}` renews it"
            )
    return lines


def _newest(kind: str, folder: Path) -> dict[str, Any] | None:
    found = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    ours = [each for each in found if each.get("kind") == kind]
    return max(ours, key=lambda each: str(each["date"]), default=None)


def _line_value(path: Path, key: str, separator: str) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    pairs = (line.partition(separator) for line in lines)
    return next((value.strip(' "') for found, _, value in pairs if found.strip() == key), "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()
