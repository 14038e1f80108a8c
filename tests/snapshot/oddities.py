"""What the readers make of a text, in words that a table can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from reprobuild.snapshot.parsers import (  # fmt: skip
    apt,
    collect_env,
    conda_list,
    env,
    environment_yml,
    git_diff,
    modules,
    nvidia_smi,
    pip_freeze,
)

Parse = Callable[[bytes], Any]
YAML = "yaml: "

PARSERS: dict[str, Parse] = {
    "pip_freeze": pip_freeze.parse,
    "apt_list": apt.parse,
    "dpkg_l": apt.parse,
    "env_dump": env.parse,
    "module_list": modules.parse,
    "conda": conda_list.parse,
    "collect_env": collect_env.parse,
    "nvidia_smi": nvidia_smi.parse,
    "git_diff": lambda data: git_diff.parse(data, "x.diff"),
}
_SHOWN = (
    "kind", "name", "version", "build", "value", "suspect", "mark", "architecture", "suites", "upgrade", "url", "path",
    "commit", "subdirectory", "sha256", "md5", "channel", "python", "torch", "cuda", "cudnn", "gpus", "driver",
    "old_path", "new_path", "old_mode", "new_mode", "missing",
)  # fmt: skip


def told(kind: str, text: str) -> tuple[str, ...]:
    """Return each value (its fields that say something) and each remark (`?` if not understood), as words."""
    parse = environment_yml.parse if text.startswith(YAML) else PARSERS[kind]
    values, remarks = parse(text.removeprefix(YAML).encode())
    return (*map(_value, _parts(values)), *(("" if r.understood else "? ") + r.reason for r in remarks))


def _parts(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        yield from getattr(value, "files", (value,))


def _value(value: Any) -> str:
    fields = ((name, getattr(value, name, None)) for name in _SHOWN)
    return " ".join(
        f"{name}={field if isinstance(field, str) else ','.join(field) if isinstance(field, tuple) else 'yes'}"
        for name, field in fields
        if field
    )
