"""What a launch settles: the seed in force and the image's variables, in the environment for all children."""

import os
import sys

TYPE_CHECKING = False  # importing typing would cost every process some milliseconds
if TYPE_CHECKING:
    from typing import MutableMapping, Optional, Tuple

SEED = "REPROBUILD_SEED"
EXPLICIT = "REPROBUILD_SEED_EXPLICIT"  # "1": somebody chose the seed, "0": it was drawn
HASH_SEED = "PYTHONHASHSEED"
CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
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
    """Write the seed where child processes look for it; what is set already stays, but for the seed itself.

    The cuBLAS workspace is fixed for a chosen seed only: it can cost speed.
    https://docs.nvidia.com/cuda/cublas/index.html#results-reproducibility
    """
    environ[SEED] = str(seed)
    environ[EXPLICIT] = "1" if explicit else "0"
    if not environ.get(HASH_SEED):
        environ[HASH_SEED] = str(seed)
    if explicit and not environ.get(CUBLAS):
        environ[CUBLAS] = ":4096:8"


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


def settle(environ: "MutableMapping[str, str]") -> None:
    """Settle variables and seed for a new launch, and log the seed; ValueError on a bad one."""
    apply_variables(environ)
    given = read(environ)
    seed, explicit = given if given is not None else (draw(), False)
    export(environ, seed, explicit)
    announce(seed)


def settle_late(environ: "MutableMapping[str, str]") -> None:
    """Settle what is not yet in an interpreter that was started around the entrypoint, and say what is lost.

    ValueError on a bad seed.
    """
    hash_seed = environ.get(HASH_SEED, "")
    if APPLIED not in environ:
        apply_variables(environ)
    given = read(environ)
    first = given is None or not environ.get(EXPLICIT)
    seed, explicit = given if given is not None else (draw(), False)
    export(environ, seed, explicit)
    if first:
        announce(seed)
    if explicit and sys.flags.ignore_environment:
        say("reprobuild: PYTHONHASHSEED is ignored under -E and -I; hash order is not seeded")
    elif explicit and not hash_seed.isdigit():
        say(
            "reprobuild: PYTHONHASHSEED was not set before this interpreter started; hash order is not seeded"
        )


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
