"""Settings of a launch, in the environment for all children.

They are the seed in force and the image's variables.
"""

# ruff: noqa: TID251  the environment is what it settles

import os
import sys

from reprobuild_runtime import applied_env

TYPE_CHECKING = False  # importing typing would cost every process some milliseconds
if TYPE_CHECKING:
    from typing import List, Mapping, MutableMapping, Optional, Tuple

SEED = "REPROBUILD_SEED"
EXPLICIT = "REPROBUILD_SEED_EXPLICIT"  # "1": the user chose the seed, "0": it was drawn
FROM = "REPROBUILD_SEED_FROM"  # the source of a drawn seed that the ranks of a job share, "none" without one
HASH_SEED = "PYTHONHASHSEED"
PROFILE = "REPROBUILD_PROFILE"  # names of profiles, comma separated; in force for a chosen seed
RECORD = "REPROBUILD_RECORD"  # the directory for records of settings; "0" or empty: no record
HASH_SAID = "REPROBUILD_HASH_ORDER_SAID"  # "1": a process above has logged that hash order is not seeded
FILES = "REPROBUILD_FILES"  # the directory of reprobuild's own files; for tests and unusual images
APPLIED = "REPROBUILD_ENVIRON"  # the directory of the applied environ.json: variables unset later stay unset
LIMIT = 2**32  # numpy.random.seed and PYTHONHASHSEED take 0 to 2**32 - 1


def check(value: object) -> int:
    """Return `value` as a seed, an integer from 0 to 2**32 - 1.

    Other values raise ValueError.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"a seed is an integer from 0 to {LIMIT - 1}, not {value!r}")
    seed = int(value.__index__())
    if not 0 <= seed < LIMIT:
        raise ValueError(f"a seed lies between 0 and {LIMIT - 1}, as numpy.random.seed wants it, not {seed}")
    return seed


def parse(text: str) -> int:
    """Return the seed in a variable's text, in decimal digits.

    Other texts raise ValueError.
    """
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 4000:
        raise ValueError(f"{SEED} is an integer from 0 to {LIMIT - 1}, not {text[:80]!r}")
    return check(int(digits))


def draw() -> int:
    """Return a seed from the system's entropy.

    It is from 1 to 2**31 - 1, and so also a signed 32-bit integer.
    """
    return int.from_bytes(os.urandom(8), "big") % (2**31 - 1) + 1


def read(environ: "MutableMapping[str, str]") -> "Optional[Tuple[int, bool]]":
    """Return (seed, explicit) of the variables, None without a seed.

    A bad seed raises ValueError.

    A seed without a note on its origin was chosen by the user (`docker run -e REPROBUILD_SEED=7`), and so was one that
    differs from the one settled above: the note on the first does not apply to it.
    """
    text, chosen = environ.get(SEED, ""), environ.get(EXPLICIT, "")
    if not text.strip():
        return None
    if chosen not in ("", "0", "1"):
        raise ValueError(f"{EXPLICIT} is 0 or 1, not {chosen[:80]!r}")
    another = bool(environ.get(applied_env.NAME)) and not applied_env.has_our_value(environ, SEED)
    return parse(text), chosen != "0" or another


def export(environ: "MutableMapping[str, str]", seed: int, explicit: bool) -> None:
    """Write the seed into the environment for child processes.

    A PYTHONHASHSEED that is not ours stays.
    """
    applied_env.put(environ, SEED, str(seed))
    environ[EXPLICIT] = "1" if explicit else "0"
    if not environ.get(HASH_SEED) or applied_env.has_our_value(environ, HASH_SEED):
        applied_env.put(environ, HASH_SEED, str(seed))


def folder(environ: "MutableMapping[str, str]") -> str:
    """Return the directory of `environ.json` and `sources/`."""
    return environ.get(FILES) or "/opt/reprobuild"


def apply_variables(environ: "MutableMapping[str, str]") -> None:
    """Set the unset variables of `environ.json`, and record that."""
    where = folder(environ)
    path = where + "/environ.json"
    if os.path.exists(path):
        from reprobuild_runtime import env_file

        env_file.apply(path)
    environ[APPLIED] = where


def _in_force(
    environ: "MutableMapping[str, str]", environ_seed: "Optional[Tuple[int, bool]]"
) -> "Tuple[int, bool, List[str]]":
    """Return the seed in force, whether it was chosen, and messages.

    The seed is that of the environment, else drawn.
    """
    if environ_seed is not None and environ_seed[1]:
        return (*environ_seed, [])
    from reprobuild_runtime.seeding import ranks

    return ranks.settle(environ, environ_seed, draw)


def settle(environ: "MutableMapping[str, str]") -> None:
    """Settle variables, seed and profile for a command; log the seed.

    A bad seed or an unknown profile raises ValueError; that for a profile has a `hint` of its own.
    """
    apply_variables(environ)
    seed, explicit, lines = _in_force(environ, read(environ))
    if explicit or environ.get(PROFILE):
        lines += _put_in_force(environ, explicit)
    export(environ, seed, explicit)
    log_seed(seed)
    if explicit and environ[HASH_SEED] == "random":
        say_hash_order(environ)
    for line in lines:
        print_line("reprobuild: " + line)


def _put_in_force(environ: "MutableMapping[str, str]", explicit: bool) -> "List[str]":
    """Set the profile's variables for a chosen seed; return messages.

    An unknown profile raises a ValueError even if no profile takes effect.
    """
    from reprobuild_runtime.profiles import apply, choose, versions

    try:
        choose.names(environ.get(PROFILE))
        return apply.launch(environ, versions.search_path(environ)) if explicit else []
    except OSError as err:  # the data cannot be read: the job is more important than its profile
        return [f"no profile is in force: {err}"]


def settle_late(environ: "MutableMapping[str, str]") -> None:
    """Settle the rest in an interpreter without the entrypoint.

    Lost settings are logged.

    A bad seed raises ValueError.
    """
    if APPLIED not in environ:
        apply_variables(environ)
    recovered = False
    if SEED not in environ:
        from reprobuild_runtime.seeding import inherit_env

        names = (SEED, EXPLICIT, FROM, PROFILE, applied_env.NAME, HASH_SAID, RECORD)
        recovered = inherit_env.inherit_variables(environ, names)
    environ_seed = read(environ)
    first = not environ.get(EXPLICIT)
    # Settled by a process above, which has logged it. PYTHONHASHSEED may still be lost on the way, but a line from each
    # child would appear in outputs that programs read.
    above = applied_env.has_our_value(environ, SEED) or (recovered and not first)
    seed, explicit, lines = _in_force(environ, environ_seed)
    another = bool(environ.get(applied_env.NAME)) and not above
    export(environ, seed, explicit)
    if first or another or environ_seed != (seed, explicit):
        log_seed(seed)
    for line in lines:
        print_line("reprobuild: " + line)
    if explicit:
        _put_in_force_late(environ)
        if not above:
            say_hash_order(environ)


def say_hash_order(environ: "MutableMapping[str, str]") -> None:
    """Log once if the order of sets does not follow the seed.

    The line is for this process and those below it.

    It is not logged if the order follows the seed, or if the user chose another seed for it.
    """
    why = _find_obstacle(environ)
    if why and environ.get(HASH_SAID) != "1":
        environ[HASH_SAID] = "1"
        print_line(f"reprobuild: PYTHONHASHSEED {why}; hash order is not seeded")


def _find_obstacle(environ: "Mapping[str, str]") -> str:
    if environ.get(HASH_SEED) == "random":
        return "is random, as it was set"
    if sys.flags.ignore_environment:
        return "is ignored under -E and -I"
    if hash_order_is_chosen():
        return ""
    if given_at_start().get(HASH_SEED):
        return f"was {given_at_start()[HASH_SEED]}, of another seed, when this interpreter started"
    return "was not set before this interpreter started"


def _put_in_force_late(environ: "MutableMapping[str, str]") -> None:
    """Set the profile's variables in an interpreter that just started.

    Variables that are read later than that take effect.
    """
    from reprobuild_runtime.profiles import apply, versions

    try:
        lines = apply.launch(environ, versions.list_own_directories())
    except (OSError, ValueError) as err:
        lines = [f"no profile is in force: {err}"]
    for line in lines:
        print_line("reprobuild: " + line)


def hash_order_is_chosen() -> bool:
    """Return whether set order follows a chosen PYTHONHASHSEED.

    Only the variables at the start of the process count: `os.environ` may have been written later, and `sys.flags` do
    not distinguish a drawn seed from a chosen one.
    """
    variables = given_at_start()
    if sys.flags.ignore_environment or not variables.get(HASH_SEED, "").isdigit():
        return False
    if not variables.get(applied_env.NAME):
        return variables.get(EXPLICIT) != "0"
    if not applied_env.has_our_value(variables, HASH_SEED):
        return True
    return variables.get(EXPLICIT) != "0" and applied_env.has_our_value(variables, SEED)


def given_at_start() -> "Mapping[str, str]":
    """Return the variables that this process was started with.

    They are those that the hook saw, else those of the kernel.

    The kernel's may be lost: a program that changes its own title (setproctitle, of vLLM and Ray) overwrites them.
    """
    variables: "Mapping[str, str]" = getattr(sys.modules.get("reprobuild_runtime.startup"), "GIVEN", {})
    if variables:
        return variables
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().decode("utf-8", "surrogateescape").split("\0")
    except OSError:
        return os.environ
    return dict(entry.partition("=")[::2] for entry in entries)


def print_line(text: str) -> None:
    """Print one line to standard error, if there is one."""
    if sys.stderr is None:  # print would use standard output instead
        return
    try:  # noqa: SIM105  importing contextlib takes longer
        print(text, file=sys.stderr, flush=True)
    except Exception:  # a closed stream must not end the user's job
        pass


def log_seed(seed: int) -> None:
    """Log the seed."""
    print_line(f"Using seed: {seed}")
