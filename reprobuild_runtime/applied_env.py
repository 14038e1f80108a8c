"""Notes in the environment on variables that we set.

Each has the value that it got.

    REPROBUILD_SETTLED="REPROBUILD_SEED=7 PYTHONHASHSEED=7 CUBLAS_WORKSPACE_CONFIG=:4096:8"

They distinguish our values from those that the user sets later on the way down (`REPROBUILD_SEED=9 python train.py` in
a container that was started with another seed, or without one): ours may be replaced, and the user's stay.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping, MutableMapping

NAME = "REPROBUILD_SETTLED"


def _list_settled(environ: "Mapping[str, str]") -> "List[str]":
    return environ.get(NAME, "").split()


def put(environ: "MutableMapping[str, str]", name: str, value: str) -> None:
    """Set a variable, and record that we did.

    `value` has no white space.
    """
    environ[name] = value
    words = [word for word in _list_settled(environ) if word.partition("=")[0] != name]
    environ[NAME] = " ".join([*words, f"{name}={value}"])


def has_our_value(environ: "Mapping[str, str]", name: str) -> bool:
    """Return whether a variable has the value that we set."""
    return name in environ and f"{name}={environ[name]}" in _list_settled(environ)


def names(environ: "Mapping[str, str]") -> "List[str]":
    """Return the variables with the values that we set."""
    variables = (word.partition("=")[0] for word in _list_settled(environ))
    return [name for name in variables if has_our_value(environ, name)]
