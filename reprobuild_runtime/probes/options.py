"""Options of the determinism tests."""

import json

from reprobuild_runtime import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

# default: torch unchanged. profile: the image's own hooks and profile. strict: that, and torch's deterministic
# algorithms. warn: the same with `warn_only`, which refuses no operation and is only reported.
MODES = ("default", "profile", "strict", "warn")
# The subject: torch, or, in an image without it, NumPy and libraries that build on it. `strict` is then one thread in
# each library, and the other modes are equal to `profile`.
SUBJECTS = ("torch", "arrays")
DEFAULTS: "Dict[str, Any]" = {
    "device": "cpu", "seed": 0, "modes": list(MODES), "processes": 2, "repeats": None, "thorough": False,
    "controls": True, "stress": True, "collectives": True, "quick": False, "only": [], "limit": None,
    "subject": "torch", "compiled": False,
}  # fmt: skip
_FLAGS = ("thorough", "controls", "stress", "collectives", "quick", "compiled")


def read(text: str) -> "Dict[str, Any]":
    """Return the options in full.

    An unknown one, or one of the wrong kind, raises ValueError.

    `repeats` is the number of runs of a probe in one process, `limit` the seconds that a child may be silent.
    """
    options = json.loads(text)
    if not isinstance(options, dict) or not set(options) <= set(DEFAULTS):
        raise ValueError("the options are an object with some of " + ", ".join(DEFAULTS))
    full = {**DEFAULTS, **options}
    if full["device"] not in ("cpu", "cuda"):
        raise ValueError("device is cpu or cuda, not {!r}".format(full["device"]))
    if full["subject"] not in SUBJECTS:
        raise ValueError("subject is torch or arrays, not {!r}".format(full["subject"]))
    settings.check(full["seed"])
    for name in _FLAGS:
        if type(full[name]) is not bool:
            raise ValueError(f"{name} is true or false, not {full[name]!r}")
    for name in ("processes", "repeats", "limit"):
        if full[name] is not None and (type(full[name]) is not int or not 1 <= full[name] <= 100000):
            raise ValueError(f"{name} is a positive integer, not {full[name]!r}")
    for name, allowed in (("modes", MODES), ("only", None)):
        _check_names(name, full[name], allowed)
    return _completed(full, "modes" in options)


def _check_names(name: str, value: "Any", allowed: "Any") -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name} is a list of names, not {value!r}")
    unknown = sorted(set(value) - set(allowed)) if allowed else []
    if unknown or len(set(value)) < len(value) or (allowed and not value):
        raise ValueError("{} is a list of some of {}, not {!r}".format(name, ", ".join(allowed or ()), value))


def _completed(full: "Dict[str, Any]", chosen: bool) -> "Dict[str, Any]":
    if full["subject"] == "arrays":
        if full["device"] != "cpu":
            raise ValueError("the subject arrays is probed on the device cpu")
        full.update(
            modes=[mode for mode in full["modes"] if mode in ("profile", "strict")], collectives=False
        )
        if not full["modes"]:
            raise ValueError("the subject arrays has the modes profile and strict")
    if full["quick"]:
        full.update(processes=1, repeats=1, stress=False, controls=False, collectives=False)
        if not chosen:
            full["modes"] = ["profile", "strict"]
    if full["processes"] is None:
        full["processes"] = DEFAULTS["processes"]
    if full["repeats"] is None:
        full["repeats"] = 100 if full["thorough"] else 5 if full["device"] == "cpu" else 10
    if full["limit"] is None:
        full["limit"] = 900 if full["thorough"] else 120
    return full
