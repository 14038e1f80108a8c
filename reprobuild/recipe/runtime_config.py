"""The runtime part of an image configuration: variables, command, user, labels.

https://github.com/opencontainers/image-spec/blob/main/config.md
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.strings import Key, Line, Text, Value

# `Test` has the words of the command, the other keys times in nanoseconds and counts.
HealthCheck: TypeAlias = dict[Key, list[Value] | Value | int | None]


class RuntimeConfig(Struct, frozen=True, kw_only=True, rename="pascal"):
    """The `config` object of an image configuration, in one form.

    `env` has lines `NAME=VALUE`. `exposed_ports` and `volumes` are sorted. An empty value
    is the same as an absent one. `healthcheck` is a JSON object, None unless it starts a program.
    """

    env: tuple[Value, ...] = ()
    entrypoint: tuple[Value, ...] = ()
    cmd: tuple[Value, ...] = ()
    working_dir: Line = ""
    user: Line = ""
    stop_signal: Line = ""
    exposed_ports: tuple[Key, ...] = ()
    volumes: tuple[Key, ...] = ()
    labels: dict[Key, Text] = {}
    healthcheck: HealthCheck | None = None

    @property
    def settings(self) -> list[str]:
        """The lines of `env`, as `sort_settings` sorts them."""
        return sort_settings(self.env)

    @property
    def directory(self) -> str:
        """The directory in which the command starts."""
        return self.working_dir or "/"

    def document(self) -> dict[str, Any]:
        """Return the `config` object, without empty values."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        for name in _SETS:
            values[name] = {key: {} for key in values[name]}
        filled = {name: value for name, value in values.items() if value}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in filled.items()}

    def digest_part(self) -> dict[str, Any]:
        """Return the values that decide the command and its environment.

        Absent values are [] or "", and the directory is never absent.
        """
        values: dict[str, Any] = {
            **msgspec.to_builtins(self),
            "Env": self.settings,
            "WorkingDir": self.directory,
        }
        del values["Labels"]
        if self.healthcheck is None:
            del values["Healthcheck"]
        return values


_SETS = ("ExposedPorts", "Volumes")  # objects with empty values, in Go's way of writing a set


class _Document(Struct, rename="pascal"):
    """A `config` object as builders write it."""

    env: list[Value] | None = None
    entrypoint: list[Value] | None = None
    cmd: list[Value] | None = None
    working_dir: Line | None = None
    user: Line | None = None
    stop_signal: Line | None = None
    exposed_ports: dict[Key, dict[Key, Text] | None] | None = None
    volumes: dict[Key, dict[Key, Text] | None] | None = None
    labels: dict[Key, Text] | None = None
    healthcheck: HealthCheck | None = None


class _Image(Struct):
    config: _Document | None = None


def read_runtime_config(config: object) -> RuntimeConfig:
    """Return the runtime part of a `config` object of any builder.

    Fields without a meaning at run time are left out.

    Raises:
        ValueError: it is no object, or a value has another type than in the specification; the message has its path.
    """
    document = decode_value({"config": config}, _Image).config or _Document()  # its error is a ValueError
    return RuntimeConfig(
        env=tuple(sort_settings(document.env or ())),
        entrypoint=tuple(document.entrypoint or ()),
        cmd=tuple(document.cmd or ()),
        working_dir=document.working_dir or "",
        user=document.user or "",
        stop_signal=document.stop_signal or "",
        exposed_ports=tuple(sorted(document.exposed_ports or ())),
        volumes=tuple(sorted(document.volumes or ())),
        labels=document.labels or {},
        healthcheck=document.healthcheck if _starts_program(document.healthcheck) else None,
    )


def _starts_program(check: HealthCheck | None) -> bool:
    """Return whether a health check starts a program.

    [] takes that of the base, and an image has no base here.
    """
    return check is not None and check.get("Test") not in (None, [], ["NONE"])


def sort_settings(settings: Iterable[str]) -> list[str]:
    """Return lines `NAME=VALUE`, sorted.

    If a name occurs twice, engines differ in the value they use, so such lists are sorted by name alone and keep their
    order.
    """
    lines = list(settings)
    pairs = sorted(lines)
    names = [pair.partition("=")[0] for pair in pairs]
    return pairs if len({*names}) == len(names) else sorted(lines, key=lambda pair: pair.partition("=")[0])


def environment_lines(config: RuntimeConfig) -> list[str]:
    """Return the lines of `%environment`: sh commands that set the variables."""
    pairs = (pair.partition("=") for pair in config.settings)
    return [f"export {name}={shlex.quote(value)}" for name, _, value in pairs]


def runscript_lines(config: RuntimeConfig) -> list[str]:
    """Return the lines of `%runscript`.

    They do what `docker run` does: change the directory, and run the entrypoint with the given or the default command.
    """
    command = config.cmd or (() if config.entrypoint else ("/bin/sh",))
    lines = [f"cd {shlex.quote(config.directory)} || exit 1"]
    if command:
        lines.append(f"[ $# -gt 0 ] || set -- {shlex.join(command)}")
    return [*lines, " ".join(["exec", *map(shlex.quote, config.entrypoint), '"$@"'])]


def variables_of(config: RuntimeConfig) -> Mapping[str, str]:
    """Return {name: value} of the variables; the last line of a name counts."""
    return {name: value for name, _, value in (pair.partition("=") for pair in config.env)}
