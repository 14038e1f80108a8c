"""The rank of this process in a job, and a common seed.

All ranks agree on the seed without communication.

Ranks that are started separately (`srun`, `mpirun`, a Kubernetes Job, torchrun on several nodes) do not each draw a
seed: they derive it from variables that they all have and other jobs do not. The variables of launchers:
https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
https://docs.open-mpi.org/en/main/tuning-apps/environment-var.html
https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode
"""

from reprobuild_runtime.seeding.launchers import JOB, LAUNCHERS, NAMESPACE, WORKER_OF_TORCHRUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Mapping, MutableMapping, Optional, Tuple

FROM = "REPROBUILD_SEED_FROM"

RANKS = tuple(rank for rank, _ in LAUNCHERS if rank)
SIZES = tuple(size for _, size in LAUNCHERS if size)

_LOOKED_AT = (*RANKS, *SIZES, WORKER_OF_TORCHRUN)
_ENCODED = tuple(name.encode() for name in _LOOKED_AT)

# The common variables of one job's ranks, the surest first: the variables that must all be set (NAME=VALUE: with this
# value), those that are added if set, and whether a later job has others. Without --rdzv-id, torchrun's id is "none".
_SLURM = ("SLURM_CLUSTER_NAME", "SLURM_JOB_START_TIME", "SLURM_RESTART_COUNT")
SHARED = (
    ((JOB,), (), True),
    (("TORCHELASTIC_RUN_ID=none", "SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT"), _SLURM, True),
    (("TORCHELASTIC_RUN_ID=none", "MASTER_ADDR", "MASTER_PORT"), (), False),
    (("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"), (), True),
    (("SLURM_JOB_ID", "SLURM_STEP_ID"), _SLURM, True),
    (("PMIX_NAMESPACE",), (), True),
    (("OMPI_MCA_ess_base_jobid",), ("OMPI_MCA_orte_hnp_uri",), True),
    (("PALS_APID",), ("PBS_JOBID",), True),
    (("FLUX_JOB_ID",), (), True),
    (("LSB_JOBID",), ("LSB_JOBINDEX",), True),
    (("PBS_JOBID",), (), True),
    (("PET_RDZV_ENDPOINT",), ("PET_RDZV_ID",), False),
    (("PET_MASTER_ADDR", "PET_MASTER_PORT"), (), False),
    (("MASTER_ADDR", "MASTER_PORT"), (), False),
)  # fmt: skip


def rank(environ: "Mapping[str, str]") -> int:
    """Return the rank of this process in its job; 0 without one.

    A launcher that states several processes comes before one that states no number, or a single process.
    """
    fallback = None
    for name, size_name in LAUNCHERS:
        number = _number(environ.get(name, ""))
        if number is None:
            continue
        if environ.get(WORKER_OF_TORCHRUN) or _parse_process_count(environ.get(size_name, "")) > 1:
            return number
        fallback = number if fallback is None else fallback
    return fallback or 0


def texts(environ: "Mapping[str, str]") -> "Tuple[object, ...]":
    """Return the variables that `rank` reads, to detect changes.

    `os.environ` decodes each name and value on access; its raw values are as good here, and faster.
    """
    raw_values = getattr(environ, "_data", None)
    if isinstance(raw_values, dict):
        return tuple(map(raw_values.get, _ENCODED))
    return tuple(map(environ.get, _LOOKED_AT))


def size(environ: "Mapping[str, str]") -> int:
    """Return the number of ranks in the job, 1 if unknown.

    An unknown number of several is 2.
    """
    sizes = [number for number in (_parse_process_count(environ.get(name, "")) for name in SIZES) if number]
    if sizes and environ.get(WORKER_OF_TORCHRUN):
        return sizes[0]
    for number in sizes:
        if number > 1:
            return number
    return 1 if sizes or not (environ.get(NAMESPACE) or _indexed(environ) or environ.get(JOB)) else 2


def _number(text: str) -> "Optional[int]":
    return int(text[:20]) if text.isascii() and text.isdigit() else None


def _parse_process_count(text: str) -> int:
    """Return a launcher's number of processes; 0 without one."""
    number = _number(text)
    if number is not None:
        return max(1, number)
    return 2 if ":" in text else 0  # torchrun's MIN:MAX


def find_common_seed(environ: "Mapping[str, str]") -> "Optional[Tuple[int, str, bool]]":
    """Return the common seed, its variables, and whether it is unique.

    It is unique if no later job finds the same seed.

    Return None for a single process, and if the ranks share no variables.
    """
    if size(environ) < 2:
        return None
    for needed, more, only_here in SHARED:
        if all(_is_set(environ, name) for name in needed):
            names = [name.partition("=")[0] for name in (*needed, *more)]
            return _derive_common_seed(
                [(name, environ[name]) for name in names if environ.get(name)], only_here
            )
    job = _indexed(environ)
    return _derive_common_seed([("the name of the Job", job)], False) if job else None


def _is_set(environ: "Mapping[str, str]", name: str) -> bool:
    name, separator, value = name.partition("=")
    return environ.get(name) == value if separator else bool(environ.get(name))


def spans_nodes(environ: "Mapping[str, str]") -> bool:
    """Return whether the ranks are on several nodes.

    Then a seed drawn by a parent is not every rank's.
    """
    for groups, alone in (
        ("GROUP_WORLD_SIZE", "1"),
        ("OMPI_COMM_WORLD_SIZE", environ.get("OMPI_COMM_WORLD_LOCAL_SIZE")),
        ("PMI_SIZE", environ.get("MPI_LOCALNRANKS")),
    ):
        if environ.get(groups, alone) != alone:
            return True
    return False


def settle(
    environ: "MutableMapping[str, str]",
    environ_seed: "Optional[Tuple[int, bool]]",
    from_system: "Callable[[], int]",
) -> "Tuple[int, bool, List[str]]":
    """Return the seed of a launch without a chosen one, False, and messages.

    Args:
        environ: the environment; the source of the seed is recorded in it.
        environ_seed: a seed that was drawn before, by a process above this one.
        from_system: draws a seed.
    """
    if environ_seed is not None and (environ.get(FROM) or not spans_nodes(environ)):
        return (*environ_seed, [])
    agreement = find_common_seed(environ)
    several = size(environ)
    if several > 1:
        environ[FROM] = "none" if agreement is None else agreement[1]
    if agreement is not None:
        if environ_seed is not None and environ.get("PYTHONHASHSEED") == str(environ_seed[0]):
            del environ[
                "PYTHONHASHSEED"
            ]  # children get that of all ranks; this interpreter's order is its node's
        return agreement[0], False, _describe_source(agreement[1], agreement[2])
    lost = (
        f"rank {rank(environ)} of {several} shares no variable with the others, so its seed is its own: "
        f"give all of them REPROBUILD_SEED=N, or {JOB}=TEXT"
    )
    seed = from_system() if environ_seed is None else environ_seed[0]
    return seed, False, [lost] if several > 1 else []


def _describe_source(source: str, only_here: bool) -> "List[str]":
    lines = [f"all ranks of this job find this seed: it was made of {source}"]
    if not only_here:
        lines.append(f"a later job with the same values finds it, too; {JOB}=TEXT tells jobs apart")
    return lines


def _indexed(environ: "Mapping[str, str]") -> str:
    """Return the name of this pod's Kubernetes Indexed Job.

    It is its host's name without the index.
    """
    index = environ.get("JOB_COMPLETION_INDEX", "")
    host = environ.get("HOSTNAME", "")
    return host[: -len(index) - 1] if index.isdigit() and host.endswith("-" + index) else ""


def _derive_common_seed(variables: "List[Tuple[str, str]]", only_here: bool) -> "Tuple[int, str, bool]":
    from hashlib import sha256

    text = "\0".join(f"{name}={value}" for name, value in variables)
    number = int.from_bytes(sha256(text.encode("utf-8", "surrogateescape")).digest(), "big")
    return number % (2**31 - 1) + 1, ", ".join(name for name, _ in variables), only_here
