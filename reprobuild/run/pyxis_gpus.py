"""GPUs in enroot containers.

Its hook mounts those that NVIDIA_VISIBLE_DEVICES names, and no GPU without it.

pyxis passes that variable and NVIDIA_DRIVER_CAPABILITIES of the job to the hook, before the image's own. Without the
latter the hook mounts `nvidia-smi`, but not CUDA.

https://github.com/NVIDIA/enroot/blob/master/conf/hooks/98-nvidia.sh,
https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from reprobuild.engines import gpu
from reprobuild.errors import UsageError

VISIBLE, CAPABILITIES = "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"
NONE = "void"
COMPUTE = "compute,utility"
COUNTED = "CUDA_VISIBLE_DEVICES"  # which Slurm sets for each step, by the numbers of the node
# A job that has GPUs, and options of srun that ask for some.
_OF_JOB = re.compile(r"SLURM_(GPUS|JOB_GPUS|STEP_GPUS)(_.*)?")
_ASKING = re.compile(r"--gpus.*|-G.*|(--gres=|--tres-per-\w+=)?(.*,)?(gres[/:])?gpu([:=,].*)?")
_UNKNOWN = (
    "--gpu auto: nothing here says that the job has GPUs, so none is asked for; --gpu all gives all of a node"
)


def hook_variables(
    option: str, gpus: str, env: Mapping[str, str], options: Sequence[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the GPU variables for enroot's hook, and messages.

    Args:
        option: `--gpu` as it was given.
        gpus: `Task.gpus`, which for "auto" has the GPUs of this machine; the nodes may have others.
        env: the user's environment.
        options: of srun.

    Raises:
        UsageError: enroot does not support the name of a GPU.
    """
    if gpu.uses_cdi(gpus):
        raise UsageError(
            f"pyxis knows no GPU by a name of CDI: {gpus}",
            hint="name it by its index or UUID, or give all with --gpu all",
        )
    if option == "none":
        return {VISIBLE: NONE}, ()
    if gpus or _job_has_gpus(env, options):
        return {VISIBLE: gpus or gpu.ALL, CAPABILITIES: COMPUTE}, ()
    return {}, (_UNKNOWN,)


def _job_has_gpus(env: Mapping[str, str], options: Sequence[str]) -> bool:
    in_env = any(value not in ("", "0") for name, value in env.items() if _OF_JOB.fullmatch(name))
    return in_env or any(_ASKING.fullmatch(word) for word in options)


def are_gpus_renumbered(gpus: str, environment: Mapping[str, str]) -> bool:
    """Return whether Slurm's GPU numbers are invalid in the container.

    Named GPUs are counted from 0 there.
    """
    return gpus not in ("", gpu.ALL) and COUNTED not in environment
