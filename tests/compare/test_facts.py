"""Names and versions, normalised across pip and conda; lists; ranks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprobuild.compare.environments import conda
from reprobuild.compare.environments.model import (
    ARCHITECTURE,
    KINDS,
    LONGEST,
    EnvironmentBuilder,
    differs_in_build,
    normalise_name,
    same_statement,
    shorten_value,
)
from reprobuild.compare.environments.ranking import rank_difference, ranking_rules
from reprobuild.resolve.environment import environment
from reprobuild.snapshot.parsers.conda_names import find_pypi_name, read_conda_names

NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,12}[A-Za-z0-9])?", fullmatch=True)
VERSIONS = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,3}(rc[0-9])?(\+[a-z0-9]{1,6})?", fullmatch=True)


@given(NAMES)
def test_a_name_is_the_same_however_it_is_spelt(name: str) -> None:
    spelt = name.upper().replace("-", "_").replace(".", "-")
    assert normalise_name(name) == normalise_name(spelt) == normalise_name(normalise_name(name))
    assert find_pypi_name(name) == find_pypi_name(spelt)


@given(VERSIONS)
def test_a_version_and_the_same_with_zeros(version: str) -> None:
    public, plus, local = version.partition("+")
    assert same_statement("python", "version", version, version)
    if "rc" not in public:
        assert same_statement("python", "version", version, f"{public}.0{plus}{local}")
    assert not same_statement("python", "version", version, f"1!{version}")
    assert same_statement("python", "version", version, f"v{version}")
    assert not same_statement("system", "version", "1.0", "1.0.0")


@pytest.mark.parametrize(
    ("one", "other", "same", "build"),
    [
        ("1.0", "1.0.0", True, False),
        ("2.13.0", "2.13.0+cpu", False, True),
        ("2.13.0+cpu", "2.13.0+cu126", False, True),
        ("2.13.0", "2.13.1+cpu", False, False),
        ("not a version", "not a version", True, False),
        ("not a version", "1.0", False, False),
        ("1" * 100_000, "1" * 100_000 + ".0", False, False),
    ],
)
def test_versions(one: str, other: str, same: bool, build: bool) -> None:
    assert same_statement("python", "version", one, other) is same
    assert differs_in_build(one, other) is build


@pytest.mark.parametrize(
    ("filename", "built"),
    [
        ("pytorch-2.3.1-py3.11_cuda12.1_cudnn8.9.2_0.tar.bz2", ("pytorch", "2.3.1", "py3.11_cuda12.1_cudnn8.9.2_0")),
        ("libgcc-ng-13.2.0-h807b86a_5.conda", ("libgcc-ng", "13.2.0", "h807b86a_5")),
        ("_openmp_mutex-4.5-2_gnu.json", ("_openmp_mutex", "4.5", "2_gnu")),
        ("history", None),
        ("a-b", None),
    ],
)  # fmt: skip
def test_files_of_conda(filename: str, built: tuple[str, str, str] | None) -> None:
    assert conda.parse_filename(filename) == (built and conda.CondaBuild(*built))


def test_conda_and_pip_have_one_name_for_one_project() -> None:
    assert {find_pypi_name(name) for name in ("pytorch", "pytorch-gpu", "torch")} == {"torch"}
    assert find_pypi_name("msgpack-python") == "msgpack"
    assert find_pypi_name("py-opencv") == "opencv-python"
    assert find_pypi_name("ruamel.yaml") == "ruamel-yaml"
    assert all(normalise_name(name) == name for pair in read_conda_names().items() for name in pair)


def test_conda_fills_in_what_a_freeze_does_not_tell() -> None:
    gathered = EnvironmentBuilder()
    gathered.add("python", "numpy", {"version": None})
    gathered.add("python", "torch", {"version": "2.3.1+cu121"})
    rows = [
        conda.CondaBuild("numpy", "1.26.4", "py311h24aa872_0"),
        conda.CondaBuild("pytorch", "2.3.1", "py3.11_cuda12.1_0"),
        conda.CondaBuild("mkl", "2023.1.0", "h213fc3f_46344"), conda.CondaBuild("tqdm", "4.66.4", "pyhd8ed1ab_0"),
    ]  # fmt: skip
    conda.add(gathered, rows)
    assert gathered.known["python"] == {
        "numpy": {"version": "1.26.4", "build": "py311h24aa872_0", "origin": "conda"},
        "torch": {"version": "2.3.1+cu121"},
        "tqdm": {"version": "4.66.4", "build": "pyhd8ed1ab_0"},
    }  # fmt: skip
    assert gathered.known["conda"] == {"mkl": {"version": "2023.1.0", "build": "h213fc3f_46344"}}


def test_what_was_stated_first_stays_and_is_counted() -> None:
    gathered = EnvironmentBuilder()
    for version in ("1", "2", "1", None):
        gathered.add("python", "a", {"version": version})
    gathered.add("python", "a", {"sha256": "x" * LONGEST})
    assert gathered.known["python"] == {"a": {"version": "1", "sha256": "x" * LONGEST}}
    assert gathered.doubled == {"python": 1}


def test_endless_values_are_told_apart() -> None:
    one, other = shorten_value("x" * LONGEST + "a"), shorten_value("x" * LONGEST + "\ud800")
    assert one != other
    assert len(one) < 120
    assert shorten_value("x" * LONGEST) == "x" * LONGEST


def test_packages_of_another_architecture_have_a_name_of_their_own() -> None:
    gathered = EnvironmentBuilder()
    rows = [
        ("libc6", "1", "amd64", ""),
        ("libc6", "2", "i386", ""),
        ("a", "1", "amd64", ""),
        ("b", "1", "all", ""),
    ]
    gathered.packages(rows)
    system = gathered.known["system"]
    assert system.pop(ARCHITECTURE) == {"value": "amd64"}
    assert {name: aspects["version"] for name, aspects in system.items()} == {
        "libc6": "1", "libc6:i386": "2", "a": "1", "b": "1",
    }  # fmt: skip


# --- ranks -----------------------------------------------------------------------------------

# In the order that `compare` promises; docs/compare.md has it, too.
ORDER = [
    ("environment", "LD_PRELOAD"), ("environment", "LD_LIBRARY_PATH"), ("interpreter", "python"),
    ("system", "python3.11-minimal"),
    ("environment", "PYTHONPATH"), ("python", "torch"), ("python", "nvidia-cudnn-cu12"),
    ("source", "tinytrain"), ("python", "flash-attn"),
    ("python", "numpy"),
    ("environment", "CUBLAS_WORKSPACE_CONFIG"), ("environment", "OMP_NUM_THREADS"),
    ("environment", "WORLD_SIZE"), ("environment", "SLURM_CPU_BIND"), ("gpu", "GPU"), ("gpu", "driver"),
    ("system", "nvidia-driver-550"), ("recipe", "seed"),
    ("python", "rich"), ("system", "libc6"), ("machine", "processor"), ("machine", "kernel"),
    ("environment", "NCCL_IB_HCA"), ("environment", "CUDA_HOME"), ("release", "system"),
    ("environment", "RUN_NOTE"), ("system", "bash"), ("module", "gcc"), ("recipe", "epoch"),
    ("environment", "SLURM_JOB_ID"),
]  # fmt: skip


def test_the_order_of_ranks() -> None:
    ranks = [rank_difference(kind, name)[0] for kind, name in ORDER]  # type: ignore[arg-type]  # literals above
    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize(
    "name", ["SLURM_JOB_ID", "PWD", "HOSTNAME", "_", "LOADEDMODULES", "SSH_CLIENT", "TMPDIR"]
)
def test_noise(name: str) -> None:
    place, rule = rank_difference("environment", name)
    assert rule.noise
    assert place == len(ranking_rules())


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("SLURM_CPU_BIND", "binding"), ("SLURM_CPU_FREQ_REQ", "binding"), ("SLURM_HINT", "binding"),
        ("SLURM_THREADS_PER_CORE", "binding"), ("SLURM_CPU_BIND_LIST", "noise"),
        ("SLURM_DISTRIBUTION", "binding"), ("SLURM_MEM_BIND", "binding"), ("SLURM_GPU_BIND", "binding"),
        ("SLURM_GPU_FREQ", "binding"), ("LSB_BIND_JOB", "binding"), ("LSB_BIND_CPU_LIST", "noise"),
        ("PRTE_MCA_hwloc_default_binding_policy", "binding"), ("MV2_CPU_MAPPING", "binding"),
        ("PBS_NP", "size of the job"), ("PBS_NUM_PPN", "size of the job"), ("PBS_JOBID", "noise"),
        ("LSB_DJOB_NUMPROC", "size of the job"), ("LSB_JOBID", "noise"), ("FLUX_JOB_SIZE", "size of the job"),
        ("OMPI_COMM_WORLD_SIZE", "size of the job"), ("OMPI_COMM_WORLD_RANK", "noise"),
        ("PMI_SIZE", "size of the job"), ("PMI_RANK", "noise"), ("NCPUS", "size of the job"),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "binding"), ("I_MPI_PIN_DOMAIN", "binding"),
        ("GLIBC_TUNABLES", "numerics variable"), ("DISABLE_ADDMM_CUDA_LT", "numerics variable"),
        ("TORCH_BLAS_PREFER_CUBLASLT", "numerics variable"), ("TORCH_NCCL_BLOCKING_WAIT", "numerics variable"),
        ("TCMALLOC_SAMPLE_PARAMETER", "numerics variable"), ("PYTHONMALLOC", "numerics variable"),
    ],
)  # fmt: skip
def test_what_changes_speed_is_no_noise(name: str, group: str) -> None:
    assert rank_difference("environment", name)[1].group == group


@given(st.sampled_from(KINDS), st.text() | st.sampled_from(["a" * 100_000, "A\nB", ""]))
def test_every_kind_and_name_has_a_rank(kind: object, name: str) -> None:
    place, rule = rank_difference(kind, name)  # type: ignore[arg-type]  # of KINDS
    assert ranking_rules()[place - 1] is rule
    assert kind in rule.kinds


def test_every_class_of_variables_is_thought_of() -> None:
    classes = {rule.kind for _, rule in environment.read_environment_rules()}
    known = {kind for rule in ranking_rules() for kind in rule.like}
    assert classes - known == {"preload", "fetching", "cache", "locale", "unknown", "image-label"}
    assert known <= classes


def test_patterns_and_reasons_are_plain() -> None:
    for rule in ranking_rules():
        assert rule.reason
        assert rule.group
        assert not (rule.names and rule.like)
        for name in rule.names:
            re.compile(name)
