"""Options of the command `run`, and their parsing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.config.profiles import check_profile
from reprobuild.engines.model import Limit, Port
from reprobuild.errors import UsageError
from reprobuild.infra.untrusted.strings import VariableName, is_valid
from reprobuild.recipe.image_config import PROFILE

SEED = "REPROBUILD_SEED"
AUTO, STRICT, OFF = CHOICE_MODES = ("auto", "strict", "off")
LIMITS = ("memlock", "stack", "nofile", "nproc", "core")
UNLIMITED = "unlimited"
_SIZE = re.compile(r"(\d{1,15})([bkmg]?)i?b?", re.IGNORECASE)
LOCAL = "127.0.0.1"
_PORT = re.compile(
    r"(?:(?P<address>[\d.]{7,15}|\[[\da-fA-F:.]{2,45}\]):)?(?P<host>\d{1,5}):(?P<inside>\d{1,5})"
)
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class RunOptions(Struct, frozen=True, kw_only=True):
    """The options for a command in its container.

    Each field is the option of its name.

    `variables` are `--env`, `volumes` are `-v`, `hidden` are `--secret`, `ports` are `-p`. `stdin` and `terminal`
    are `-i` and `-t`, `trusted_choices` are `--trust-choices`. For None, `run` chooses.
    """

    seed: int | None = None
    variables: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    workdir: str = ""
    user: str | None = None
    shm_size: str | None = None
    limits: tuple[str, ...] = ()
    network: str | None = None
    engine: str | None = None
    gpus: str = "auto"
    profile: str | None = None
    ports: tuple[str, ...] = ()
    stdin: bool = False
    terminal: bool = False
    choices: str = AUTO
    save_choices: bool = False
    trusted_choices: tuple[str, ...] = ()


def read_variables(run_options: RunOptions, env: Mapping[str, str]) -> dict[str, str]:
    """Return the user's variables: the seed, the profile, values, and secrets.

    Raises:
        UsageError: the profile is unknown, a name is not valid or not set here, or the value of a secret is on the
            command line.
    """
    variables = {} if run_options.seed is None else {SEED: str(run_options.seed)}
    if run_options.profile is not None:
        if run_options.seed is None:
            raise UsageError(
                "--profile without --seed: a profile is in force for a chosen seed alone",
                hint="choose a seed, too: --seed 7",
            )
        variables[PROFILE] = check_profile(run_options.profile, "--profile: ")
    for variable in run_options.variables:
        name, equals, value = variable.partition("=")
        if not is_valid(name, VariableName):  # `AWS*` is a pattern to podman
            raise UsageError(
                f"--env: {name!r} is not the name of a variable",
                hint="a name has letters, digits and _, and begins with no digit; give several options for several "
                "variables: --env A=1 --env B",
            )
        if not equals and name not in env:
            raise UsageError(
                f"--env {name}: it is not set here", hint=f"give its value: --env {shlex.quote(name)}=VALUE"
            )
        variables[name] = value if equals else env[name]
    for name in run_options.hidden:
        if not is_valid(name, VariableName):
            raise UsageError(
                "--secret takes the name of a variable alone: a value on the command line can be read by everybody",
                hint="export the variable first, and give its name: --secret WANDB_API_KEY",
            )
        if not env.get(name):
            raise UsageError(
                f"--secret {name}: it is not set here, or empty",
                hint=f"export it before: read -rs {name}; export {name}",
            )
        variables[name] = env[name]
    return variables


def read_volumes(texts: tuple[str, ...]) -> tuple[tuple[tuple[str, str], ...], frozenset[str]]:
    """Return pairs of directories, and the read-only container directories.

    Raises:
        UsageError: one is not of the form HOST:CONTAINER[:ro].
    """
    pairs, read_only = [], set()
    for text in texts:
        host, colon, rest = text.partition(":")
        inside, _, mode = rest.partition(":")
        if not colon or not host or not inside.startswith("/") or mode not in ("", "rw", "ro"):
            raise UsageError(
                f"--volume {text}: not of the form HOST:CONTAINER[:ro]",
                hint="for example --volume data:/data:ro",
            )
        pairs.append((str(Path(host).absolute()), inside))
        if mode == "ro":
            read_only.add(inside)
    return tuple(pairs), frozenset(read_only)


def make_volume_absolute(volume: str) -> str:
    """Return a volume with an absolute path on this machine."""
    host, colon, rest = volume.partition(":")
    return f"{Path(host).absolute()}:{rest}" if host and colon else volume


def read_size(text: str) -> int:
    """Return a number of bytes: 8g, 512m, 1073741824.

    Raises:
        UsageError: it is not a size.
    """
    match = _SIZE.fullmatch(text.strip())
    if not match or not int(match[1]):
        raise UsageError(f"--shm-size {text}: not a size", hint="for example --shm-size 8g")
    return int(match[1]) * _UNITS[match[2].lower()]


def read_ports(texts: tuple[str, ...]) -> tuple[Port, ...]:
    """Return published ports from [ADDRESS:]HOST:CONTAINER.

    Without an address, a port can be reached from this machine alone.

    Raises:
        UsageError: one is not of that form.
    """
    ports = []
    for text in texts:
        match = _PORT.fullmatch(text)
        if not match or not all(0 < int(match[name]) < 1 << 16 for name in ("host", "inside")):
            raise UsageError(
                f"--publish {text}: not of the form [ADDRESS:]HOST:CONTAINER",
                hint="for example -p 8888:8888, or -p 0.0.0.0:8888:8888 to let other machines reach it",
            )
        address = (match["address"] or LOCAL).strip("[]")
        ports.append(Port(address=address, host=int(match["host"]), inside=int(match["inside"])))
    return tuple(ports)


def read_limits(texts: tuple[str, ...]) -> tuple[Limit, ...]:
    """Return resource limits from NAME=SOFT[:HARD].

    Each value is a number or `unlimited`.

    Raises:
        UsageError: one is not of that form.
    """
    limits = []
    for text in texts:
        name, _, values = text.partition("=")
        soft, _, hard = values.partition(":")
        numbers = [-1 if part in (UNLIMITED, "-1") else int(part) if re.fullmatch(r"\d{1,18}", part) else None
                   for part in (soft, hard or soft)]  # fmt: skip
        if (
            name not in LIMITS
            or numbers[0] is None
            or numbers[1] is None
            or _is_above(numbers[0], numbers[1])
        ):
            raise UsageError(
                f"--ulimit {text}: not of the form NAME=SOFT[:HARD]",
                hint="for example --ulimit nofile=1048576, --ulimit memlock=unlimited; "
                f"NAME is one of {', '.join(LIMITS)}",
            )
        limits.append(Limit(name=name, soft=numbers[0], hard=numbers[1]))
    return tuple(limits)


def _is_above(first: int, second: int) -> bool:
    """Return whether a limit is above another; -1 is unlimited."""
    return second != -1 and (first == -1 or first > second)


def read_user(text: str) -> str:
    """Return `Task.user`: "image", "caller", or UID[:GID] in numbers.

    Raises:
        UsageError: it has another form.
    """
    if text in ("image", "caller"):
        return "" if text == "image" else text
    match = re.fullmatch(r"(\d{1,9})(?::(\d{1,9}))?", text)
    if not match:
        raise UsageError(
            f"--user {text}: not a user",
            hint="caller, image, or numbers: --user 1000:1000, --user $(id -u):$(id -g)",
        )
    return f"{match[1]}:{match[2] or match[1]}"
