"""What a launch settles: the seed in force and the image's variables, in the environment for all children."""

# ruff: noqa: TID251  the environment is what it settles

import os
import sys

TYPE_CHECKING = False  # importing typing would cost every process some milliseconds
if TYPE_CHECKING:
    from typing import List, MutableMapping, Optional, Sequence, Tuple

SEED = "REPROBUILD_SEED"
EXPLICIT = "REPROBUILD_SEED_EXPLICIT"  # "1": somebody chose the seed, "0": it was drawn
FROM = "REPROBUILD_SEED_FROM"  # what the ranks of a job made a drawn seed of, "none" where they share nothing
HASH_SEED = "PYTHONHASHSEED"
PROFILE = "REPROBUILD_PROFILE"  # names of profiles, comma separated; in force for a chosen seed
FILES = "REPROBUILD_FILES"  # the folder of reprobuild's own files; for tests and unusual images
APPLIED = "REPROBUILD_ENVIRON"  # the folder whose environ.json was applied: what is unset later stays unset
LIMIT = 2**32  # numpy.random.seed and PYTHONHASHSEED take 0 to 2**32 - 1


def check(value: object) -> int:
    """Return `value` as a seed; raise ValueError unless it is an integer from 0 to 2**32 - 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"a seed is an integer from 0 to {LIMIT - 1}, not {value!r}")
    seed = int(value.__index__())
    if not 0 <= seed < LIMIT:
        raise ValueError(f"a seed lies between 0 and {LIMIT - 1}, as numpy.random.seed wants it, not {seed}")
    return seed


def parse(text: str) -> int:
    """Return the seed that a variable's text says; raise ValueError unless it is one in decimal digits."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 4000:
        raise ValueError(f"{SEED} is an integer from 0 to {LIMIT - 1}, not {text[:80]!r}")
    return check(int(digits))


def draw() -> int:
    """Return a seed from the system's entropy, 1 to 2**31 - 1: a signed 32-bit integer, too."""
    return int.from_bytes(os.urandom(8), "big") % (2**31 - 1) + 1


def read(environ: "MutableMapping[str, str]") -> "Optional[Tuple[int, bool]]":
    """Return (seed, explicit) as the variables say, None without a seed; raise ValueError on a bad one.

    A seed without a word on who chose it was chosen by whoever set it (`docker run -e REPROBUILD_SEED=7`).
    """
    text, chosen = environ.get(SEED, ""), environ.get(EXPLICIT, "")
    if not text.strip():
        return None
    if chosen not in ("", "0", "1"):
        raise ValueError(f"{EXPLICIT} is 0 or 1, not {chosen[:80]!r}")
    return parse(text), chosen != "0"


def export(environ: "MutableMapping[str, str]", seed: int, explicit: bool) -> None:
    """Write the seed where child processes look for it; what is set already stays, but for the seed itself."""
    environ[SEED] = str(seed)
    environ[EXPLICIT] = "1" if explicit else "0"
    if not environ.get(HASH_SEED):
        environ[HASH_SEED] = str(seed)


def folder(environ: "MutableMapping[str, str]") -> str:
    """Return the folder that holds `environ.json` and `sources/`."""
    return environ.get(FILES) or "/opt/reprobuild"


def apply_variables(environ: "MutableMapping[str, str]") -> None:
    """Set the variables of `environ.json` that are not set yet, and note that this was done."""
    where = folder(environ)
    path = where + "/environ.json"
    if os.path.exists(path):
        from reprobuild_runtime import environfile

        environfile.apply(path)
    environ[APPLIED] = where


def _in_force(
    environ: "MutableMapping[str, str]", given: "Optional[Tuple[int, bool]]"
) -> "Tuple[int, bool, List[str]]":
    """Return the seed in force, whether somebody chose it, and what is to be said: the one given, else drawn."""
    if given is not None and given[1]:
        return (*given, [])
    from reprobuild_runtime.seeding import ranks

    return ranks.settle(environ, given, draw)


def settle(environ: "MutableMapping[str, str]", command: "Sequence[str]" = ()) -> None:
    """Settle variables, seed and profile for the launch of a command, and log the seed.

    ValueError on a bad seed or an unknown profile; one with a `hint` of its own for a profile.
    """
    apply_variables(environ)
    seed, explicit, lines = _in_force(environ, read(environ))
    if explicit or environ.get(PROFILE):
        lines += _put_in_force(environ, explicit, command)
    export(environ, seed, explicit)
    announce(seed)
    for line in lines:
        say("reprobuild: " + line)


def _put_in_force(
    environ: "MutableMapping[str, str]", explicit: bool, command: "Sequence[str]"
) -> "List[str]":
    """Put the profile's variables into the environment for a chosen seed; return what is to be said.

    A profile that is none raises a ValueError also where none takes effect.
    """
    from reprobuild_runtime.profiles import apply, choose, versions

    try:
        choose.names(environ.get(PROFILE))
        return apply.launch(environ, command, versions.search_path(environ)) if explicit else []
    except OSError as err:  # the data cannot be read: the job is worth more than its profile
        return [f"no profile is in force: {err}"]


def settle_late(environ: "MutableMapping[str, str]") -> None:
    """Settle what is not yet in an interpreter that was started around the entrypoint, and say what is lost.

    ValueError on a bad seed.
    """
    hash_seed = environ.get(HASH_SEED, "")
    if APPLIED not in environ:
        apply_variables(environ)
    if SEED not in environ:
        from reprobuild_runtime.seeding import inherited

        inherited.recover(environ, (SEED, EXPLICIT, FROM, PROFILE))
    given = read(environ)
    first = not environ.get(EXPLICIT)
    seed, explicit, lines = _in_force(environ, given)
    export(environ, seed, explicit)
    if first or given != (seed, explicit):
        announce(seed)
    for line in lines:
        say("reprobuild: " + line)
    if explicit:
        _put_in_force_late(environ)
    if explicit and sys.flags.ignore_environment:
        say("reprobuild: PYTHONHASHSEED is ignored under -E and -I; hash order is not seeded")
    elif explicit and not hash_seed.isdigit():
        say(
            "reprobuild: PYTHONHASHSEED was not set before this interpreter started; hash order is not seeded"
        )


def _put_in_force_late(environ: "MutableMapping[str, str]") -> None:
    """Set the profile's variables in an interpreter that just started: what binds later than that is in time."""
    from reprobuild_runtime.profiles import apply, versions

    try:
        lines = apply.launch(environ, (), versions.own_path())
    except (OSError, ValueError) as err:
        lines = [f"no profile is in force: {err}"]
    for line in lines:
        say("reprobuild: " + line)


def hash_order_is_chosen() -> bool:
    """Tell whether the order of sets in this interpreter follows from a PYTHONHASHSEED that somebody chose.

    Only what the process was started with counts: `os.environ` may have been written later, and `sys.flags` do not
    tell a drawn seed from a chosen one.
    """
    if sys.flags.ignore_environment:
        return False
    try:
        with open("/proc/self/environ", "rb") as file:
            given = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
    except OSError:
        return os.environ.get(HASH_SEED, "").isdigit()
    return given.get(HASH_SEED.encode(), b"").isdigit() and given.get(EXPLICIT.encode()) != b"0"


def say(text: str) -> None:
    """Print one line on standard error, or nothing where there is none."""
    if sys.stderr is None:  # print would take standard output instead
        return
    try:  # noqa: SIM105  importing contextlib takes longer
        print(text, file=sys.stderr, flush=True)
    except Exception:  # a closed stream must not end the user's job
        pass


def announce(seed: int) -> None:
    """Log the seed."""
    say(f"Using seed: {seed}")
