"""Loaded modules, and facts of the scheduler."""

from __future__ import annotations

from reprobuild_portable.capture.files import _text
from reprobuild_portable.capture.model import Context, GaveUpError, Taken
from reprobuild_portable.secrets.variables import secret_variable


def take_modules(context: Context) -> Taken:
    """Capture the loaded environment modules.

    Lmod, Tcl modules and those of Cray all set LOADEDMODULES.
    """
    if not any(name in context.environ for name in ("LOADEDMODULES", "MODULESHOME", "LMOD_CMD")):
        raise GaveUpError("not-there")
    names = [name for name in context.environ.get("LOADEDMODULES", "").split(":") if name]
    places = [place for place in context.environ.get("_LMFILES_", "").split(":") if place]
    rows = ["Currently Loaded Modules:", *(f"  {i}) {name}" for i, name in enumerate(names, 1))]
    text = "\n".join(rows) if names else "No modules loaded"
    facts = {"loaded": names, "files": places, "system": context.environ.get("LMOD_VERSION") and "lmod"}
    return Taken(facts, {"modules.txt": (text + "\n").encode("utf-8", "backslashreplace")})


_SCHEDULERS = {"slurm": "SLURM_", "pbs": "PBS_", "lsf": "LSB_", "sge": "SGE_", "kubernetes": "KUBERNETES_"}


def take_scheduler(context: Context) -> Taken:
    """Capture the variables that the scheduler set for the job.

    The schedulers are Slurm, PBS, LSF, Grid Engine and Kubernetes.
    """
    schedulers = {}
    for kind, start in _SCHEDULERS.items():
        values = {
            name: value for name, value in sorted(context.environ.items())
            if name.startswith(start) and not secret_variable(name, value)
        }  # fmt: skip
        if values:
            schedulers[kind] = {
                name: value.encode("utf-8", "backslashreplace").decode() for name, value in values.items()
            }
    if "kubernetes" in schedulers:
        place = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"  # the token beside it is not read
        schedulers["kubernetes"]["namespace"] = _text(place, 256)
    if not schedulers:
        raise GaveUpError("not-there")
    return Taken(schedulers)
