"""What becomes of each captured variable: one row for each class, and every refusal."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from reprobuild.config.overrides import BuildDecision
from reprobuild.errors import UsageError
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import EnvVar
from reprobuild.resolve.builds.variables import build_variables
from reprobuild.resolve.environment.environment import (
    PathContext,
    preload_packages,
    read_environment_rules,
    resolve_environment,
)
from reprobuild.resolve.environment.modules import EVIDENCE, LoadedModules
from reprobuild.resolve.environment.path_mapping import PathMap
from reprobuild.resolve.system.image_environment import inherit_environment
from reprobuild.snapshot.model import Module, SourceLocation, Variable
from reprobuild.snapshot.parsers import env
from reprobuild_portable import secrets
from tests.snapshot.samples import SECRETS
from tests.snapshot.test_secrets import LOGINS


def variable(name: str, value: str | None = "x", **more: str) -> Variable:
    return Variable(place=SourceLocation("env.txt", 3), name=name, value=value, **more)


def decide(
    *variables: Variable, bake: Mapping[str, str | None] | None = None, drop: Collection[str] = ()
) -> tuple[dict[str, str], dict[str, Resolution]]:
    settings, rulings = resolve_environment(variables, bake=bake or {}, drop=drop)
    assert len(rulings) == len(variables)
    return {s.name: s.value for s in settings}, {ruling.subject: ruling for ruling in rulings}


SESSION = "belongs to the session or the host"
JOB = "set by the scheduler or launcher of each job"
MODULES = "belongs to the module system of the cluster"
PATHS = "paths of the captured machine; the image has its own"
FABRIC = "belongs to the fabric of the cluster; the site sets its own"
FETCHING = "only needed while packages are fetched"
MATTERS = "changes what is computed, or how fast"
TEXT = "changes text and time"
NO_LOCALE = "the image has no such locale or zone; C.UTF-8 and UTC stand in"
CACHES = "a directory of the captured machine for downloads and caches; the program's default stands in"
LABEL = "labels the image that the snapshot was taken in, and would be false of this one"
UNKNOWN = "not known to change the computation; --bake NAME puts it in"


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("HOME USER SHLVL PWD _ TERM TERM_PROGRAM SSH_CLIENT XDG_RUNTIME_DIR TMPDIR PS1 REPRO_DIR", SESSION),
        ("SLURM_JOB_ID SLURMD_NODENAME PBS_O_HOME CUDA_VISIBLE_DEVICES RANK MASTER_ADDR WORLD_SIZE", JOB),
        ("PMIX_RANK PMI_RANK OMPI_COMM_WORLD_RANK TORCHELASTIC_RUN_ID KUBERNETES_PORT JOB_ID", JOB),
        ("MODULEPATH LMOD_CMD LOADEDMODULES _ModuleTable001_ __LMOD_REF_COUNT_PATH EBROOTCUDA", MODULES),
        ("PATH LIBRARY_PATH PYTHONHOME CUDA_HOME CONDA_PREFIX VIRTUAL_ENV JAVA_HOME", PATHS),
        ("HCOLL_HOME AOCL_ROOT UCC_DIR SHARP_HOME NVPL_ROOT NCCL_DIR NCCL_HOME CUDNN_ROOT CUDNN_PATH", PATHS),
        ("NCCL_SOCKET_IFNAME NCCL_IB_HCA NCCL_DEBUG UCX_TLS FI_PROVIDER OMPI_MCA_btl", FABRIC),
        (
            "NCCL_GRAPH_DUMP_FILE HCOLL_MAIN_IB OMPI_MCA_pml OMPI_MCA_oob_tcp_if_include NCCL_OOB_NET_IFNAME",
            FABRIC,
        ),
        (
            "UCC_TL_SHARP_DEVICES UCC_LOG_FILE SHARP_SMX_SOCK_INTERFACE NCCL_NETDEVS_POLICY MPICH_OFI_NIC_POLICY",
            FABRIC,
        ),
        ("http_proxy HTTPS_PROXY PIP_INDEX_URL UV_INDEX SSL_CERT_FILE REQUESTS_CA_BUNDLE", FETCHING),
        ("MY_FLAG FOO WANDB_PROJECT OMPX TORCH_NCCL_DEBUG_INFO_TEMP_FILE", UNKNOWN),
        (
            "NCCL_VERSION CUDA_VERSION CUDNN_VERSION PYTORCH_VERSION PYTORCH_BUILD_VERSION PYTORCH_BUILD_NUMBER",
            LABEL,
        ),
        ("NVARCH NV_CUDA_LIB_VERSION NVIDIA_BUILD_ID NVIDIA_PYTORCH_VERSION NVIDIA_REQUIRE_CUDA", LABEL),
        ("COCOAPI_VERSION CUBLAS_VERSION OPENMPI_VERSION TRT_VERSION DALI_BUILD NVIDIA_PRODUCT_NAME", LABEL),
        ("HF_HOME TORCH_HOME TORCHINDUCTOR_CACHE_DIR TRITON_CACHE_DIR WANDB_DIR", CACHES),
    ],
)
def test_what_stays_out(names: str, reason: str) -> None:
    settings, rulings = decide(*map(variable, names.split()))
    assert settings == {}
    assert {(r.subject, r.outcome, r.reason, r.line) for r in rulings.values()} == {
        (name, "excluded", reason, 3) for name in names.split()
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("OMP_NUM_THREADS=8 MKL_CBWR=COMPATIBLE KMP_AFFINITY=none OPENBLAS_NUM_THREADS=1", MATTERS),
        ("USE_EXPERIMENTAL_CUDNN_V8_API=1 HSA_OVERRIDE_GFX_VERSION=9.0.0 PYTORCH_JIT=0", MATTERS),
        ("AOCL_ENABLE_INSTRUCTIONS=avx2 NVPL_BLAS_DEBUG_CPU_TYPE=1", MATTERS),
        ("CUBLAS_WORKSPACE_CONFIG=:4096:8 NVIDIA_TF32_OVERRIDE=0 NCCL_ALGO=Ring NCCL_PROTO=Simple", MATTERS),
        ("OMPI_MCA_coll=^hcoll OMPI_MCA_coll_tuned_allreduce_algorithm=4 HCOLL_ENABLE_MCAST=0", MATTERS),
        ("MPICH_COLL_OPT_OFF=mpi_allreduce MPICH_ALLREDUCE_NO_SMP=1 MV2_USE_SHMEM_ALLREDUCE=0", MATTERS),
        ("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=ring NCCL_TUNER_PLUGIN=none UCC_CONFIG_FILE=", MATTERS),
        ("SHARP_COLL_ENABLE_SAT=1 UCC_CL_BASIC_TLS=^sharp I_MPI_CBWR=2 NCCL_GRAPH_REGISTER=0", MATTERS),
        ("PYTHONHASHSEED=0 TF_DETERMINISTIC_OPS=1 XLA_FLAGS=--x CUDA_LAUNCH_BLOCKING=1", MATTERS),
        (
            "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 PYTHONMALLOC=malloc LD_BIND_NOW=1 TCMALLOC_SAMPLE_PARAMETER=0"
            " MIMALLOC_PAGE_RESET=0 _RJEM_MALLOC_CONF=narenas:1",
            MATTERS,
        ),
        (
            "DISABLE_ADDMM_CUDA_LT=1 DISABLE_ADDMM_HIP_LT=0 TORCH_BLAS_PREFER_CUBLASLT=1 TORCH_NCCL_BLOCKING_WAIT=1",
            MATTERS,
        ),
        (
            "TORCHINDUCTOR_MAX_AUTOTUNE=1 PYTORCH_CUDA_ALLOC_CONF=a:b TRITON_PTXAS=x MALLOC_ARENA_MAX=2",
            MATTERS,
        ),
        ("LANG=C.UTF-8 LC_ALL=C LC_NUMERIC=POSIX LC_TIME=C.utf8 TZ=UTC", TEXT),
    ],
)
def test_what_is_baked(text: str, reason: str) -> None:
    pairs = dict(pair.split("=", 1) for pair in text.split())
    settings, rulings = decide(*(variable(name, value) for name, value in pairs.items()))
    assert settings == pairs
    assert {(r.subject, r.outcome, r.reason) for r in rulings.values()} == {
        (n, "pinned", reason) for n in pairs
    }


@pytest.mark.parametrize("pair", ["LANG=en_US.UTF-8", "LC_ALL=de_DE", "TZ=Europe/Berlin", "LANG=C.UTF-8x"])
def test_a_locale_that_the_image_has_not_is_left_out(pair: str) -> None:
    name, _, value = pair.partition("=")
    settings, rulings = decide(variable(name, value))
    assert settings == {}
    assert (rulings[name].outcome, rulings[name].reason) == ("excluded", NO_LOCALE)


def test_parts_of_another_mpi_are_not_asked_for() -> None:
    """An Open MPI that lacks a part which is named does not start."""
    settings, rulings = decide(variable("OMPI_MCA_coll", "hcoll,tuned,basic,self"))
    assert settings == {}
    assert (rulings["OMPI_MCA_coll"].outcome, rulings["OMPI_MCA_coll"].kind) == ("excluded", "numerics")
    assert rulings["OMPI_MCA_coll"].reason.endswith("that of the image may not; --bake NAME puts it in")


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_GRAPH_FILE", "NCCL_TUNER_PLUGIN", "NCCL_CONF_FILE", "UCC_CONFIG_FILE", "UCC_COMPONENT_PATH",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename", "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE", "I_MPI_TUNING_BIN",
    ],
)  # fmt: skip
def test_a_file_of_the_captured_machine_chooses_no_sums(name: str) -> None:
    settings, rulings = decide(variable(name, "/opt/site/tuned.conf"))
    assert settings == {}
    assert (rulings[name].outcome, rulings[name].kind) == ("excluded", "numerics")
    assert rulings[name].reason.startswith("a file of the captured machine that chooses how sums are made")
    assert decide(variable(name, "/opt/mine"), bake={name: None})[0] == {name: "/opt/mine"}


def test_every_rule_is_met_by_these_tests() -> None:
    assert {rule.reason for _, rule in read_environment_rules()} == {
        SESSION, JOB, MODULES, PATHS, FABRIC, FETCHING, MATTERS, TEXT, UNKNOWN, CACHES, LABEL,
        "libraries loaded into every process", "directories of libraries, as they are in the image",
        "directories of modules, as they are in the image",
    }  # fmt: skip


def test_a_system_library_is_preloaded_with_its_package() -> None:
    value = (
        "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2:libm.so.6 /lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"
    )
    settings, (ruling,) = resolve_environment([variable("LD_PRELOAD", value)], bake={}, drop=())
    needs = ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")
    assert settings == (EnvVar(name="LD_PRELOAD", value=value, needs=needs),)
    assert ruling.outcome == "pinned"
    assert preload_packages(settings) == ["libjemalloc2", "libtcmalloc-minimal4"]


@pytest.mark.parametrize(
    "library", ["/cluster/sw/libfast.so", "/home/user/lib/libjemalloc.so", "/opt/x/y.so"]
)
def test_a_library_of_the_site_is_unresolved(library: str) -> None:
    settings, rulings = decide(variable("LD_PRELOAD", f"/usr/lib/x86_64-linux-gnu/libgomp.so.1 {library}"))
    assert settings == {}
    assert (rulings["LD_PRELOAD"].outcome, rulings["LD_PRELOAD"].kind) == ("unresolved", "site-library")
    assert rulings["LD_PRELOAD"].reason.startswith(f"{library} is a library of the captured site")


PLACES = PathMap(moved=(("/home/ada/lib", "/src/lib"),), environment="/home/ada/env/v")


def loaded(modules: str = "", **distributions: str) -> LoadedModules:
    found = [name.partition("/") for name in modules.split()]
    return LoadedModules(
        modules=tuple(Module(place=SourceLocation("modules.txt", 2), name=n, version=v or None) for n, _, v in found),
        distributions={name.replace("_", "-"): version for name, version in distributions.items()},
    )  # fmt: skip


def listed(name: str, value: str, around: PathContext) -> tuple[str | None, Resolution]:
    settings, (ruling,) = resolve_environment([variable(name, value)], bake={}, drop=(), context=around)
    return (settings[0].value if settings else None), ruling


def test_folders_of_captured_repositories_are_those_of_the_image() -> None:
    around = PathContext(places=PLACES)
    value = "/home/ada/lib/src:/scratch/other::relative:/home/ada/env/v/lib/python3.11/site-packages:/home/ada/lib/src/"
    found, ruling = listed("PYTHONPATH", value, around)
    assert found == "/src/lib/src:/opt/env/lib/python3.11/site-packages"
    assert (ruling.outcome, ruling.kind) == ("pinned", "path")
    assert (
        ruling.reason
        == "directories of modules, as they are in the image; left out: /scratch/other, relative (relative)"
    )
    found, ruling = listed("PYTHONPATH", "/home/ada/libother", around)
    assert (found, ruling.outcome, ruling.reason) == (None, "excluded", "left out: /home/ada/libother")


def test_a_library_of_a_captured_repository_is_preloaded_from_its_new_place() -> None:
    value = "/home/ada/lib/fast.so /usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    settings, (ruling,) = resolve_environment(
        [variable("LD_PRELOAD", value)], bake={}, drop=(), context=PathContext(places=PLACES)
    )
    needs = ("/src/lib/fast.so", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
    assert settings == (EnvVar(name="LD_PRELOAD", value=":".join(needs), needs=needs),)
    assert (ruling.outcome, ruling.kind) == ("pinned", "preload")


CPU = "torch 2.13.0+cpu is built for the CPU, and nothing uses it"
BUNDLED = (
    "torch 2.5.1+cu124 of the environment brings CUDA; the module was 12.1, which only what was compiled with it could "
    "tell"
)


@pytest.mark.parametrize(
    ("value", "around", "outcome", "reason"),
    [
        ("/usr/lib/x86_64-linux-gnu:/lib64:/usr/local/lib", loaded(), "excluded", "the image needs none"),
        (
            "/apps/cuda/12.1/lib64", loaded("cuda/12.1", torch="2.13.0+cpu"), "excluded",
            f"left out: /apps/cuda/12.1/lib64 ({CPU})",
        ),
        (
            "/sw/CUDA/12.1/lib", loaded("system/CUDA/12.1", torch="2.5.1+cu124"), "excluded",
            f"left out: /sw/CUDA/12.1/lib ({BUNDLED})",
        ),
        (
            "/usr/local/cuda-12.4/lib64:/usr/local/nvidia/lib",
            loaded(torch="2.5.1", nvidia_cuda_runtime_cu12="12.4.127"), "excluded",
            "left out: /usr/local/cuda-12.4/lib64 (nvidia-cuda-runtime-cu12 12.4.127 of the environment brings CUDA), "
            "/usr/local/nvidia/lib (its libraries are the host's, and come into the container with the GPU)",
        ),
        (
            "/apps/cuda/12.1/lib64", loaded("cuda/12.1", jax="0.4"), "unresolved",
            "/apps/cuda/12.1/lib64: directories of the captured site, and the image has nothing in their place",
        ),
        (
            "/apps/hdf5/1.14/lib:/home/ada/lib/so", loaded("hdf5/1.14"), "unresolved",
            "/apps/hdf5/1.14/lib: directories of the captured site, and the image has nothing in their place",
        ),
        ("/home/ada/lib/so", loaded(), "pinned", "directories of libraries, as they are in the image"),
    ],
)  # fmt: skip
def test_folders_of_libraries(value: str, around: LoadedModules, outcome: str, reason: str) -> None:
    found, ruling = listed("LD_LIBRARY_PATH", value, PathContext(places=PLACES, loaded=around))
    assert (ruling.outcome, ruling.reason) == (outcome, reason)
    assert ruling.kind == ("site-library-path" if outcome == "unresolved" else "path")
    assert found == ("/src/lib/so" if outcome == "pinned" else None)


@pytest.mark.parametrize(
    ("module", "distributions", "outcome", "reason"),
    [
        ("cuda/12.4", {"torch": "2.13.0+cpu"}, "excluded", CPU),
        ("cuda/12.1", {"torch": "2.5.1+cu124"}, "excluded", BUNDLED),
        ("cudnn/8.9", {"nvidia_cudnn_cu12": "9.1.0.70"}, "excluded",
         "nvidia-cudnn-cu12 9.1.0.70 of the environment brings cuDNN; the module was 8.9, which only what was compiled "
         "with it could tell"),
        ("openmpi/4.1.6", {"mpi4py": "4.0.1"}, "replaced", "mpi4py needs it; openmpi-bin of the base stands in"),
        ("openmpi/4.1.6", {"torch": "2.5.1"}, "excluded", "no distribution of the environment uses MPI"),
        ("compilers/GCC/12.2", {}, "excluded", "libgcc-s1, libgomp1, libstdc++6 of the base stands in"),
        ("Python/3.11.3", {}, "excluded", "evidence of the interpreter's version; the image has its own"),
        ("hdf5/1.14", {}, "excluded", EVIDENCE),
        ("cuda", {"jax": "0.4"}, "excluded", EVIDENCE),
    ],
)  # fmt: skip
def test_modules(module: str, distributions: Mapping[str, str], outcome: str, reason: str) -> None:
    found = loaded(module, **distributions)
    (ruling,) = found.rulings()
    assert (ruling.outcome, ruling.reason, ruling.line) == (outcome, reason, 2)
    assert ruling.kind == ("module-replaced" if outcome == "replaced" else "module")
    assert found.packages() == (["openmpi-bin"] if outcome == "replaced" else [])


@pytest.mark.parametrize(
    ("modules", "path"),
    [
        ("gcc/12.2.0 hdf5/1.14.3", "/sw/spack/rocky8/gcc-12.2.0/hdf5-1.14.3-abc/lib"),
        ("gcc/12.2", "/opt/apps/gcc/12.2/hdf5/1.14/lib"),
        ("fftw/3.3.10/gcc/12.2", "/sw/fftw/3.3.10/gcc/12.2/lib"),
    ],
)
def test_a_library_that_was_made_with_a_compiler_is_not_the_compilers(modules: str, path: str) -> None:
    _, ruling = listed("LD_LIBRARY_PATH", path, PathContext(loaded=loaded(modules)))
    assert (ruling.outcome, ruling.kind) == ("unresolved", "site-library-path")


def test_the_product_of_a_module_is_what_stands_before_its_version() -> None:
    (ruling,) = loaded("py-torch/2.0").rulings()
    assert ruling.reason == EVIDENCE
    (ruling,) = loaded("fftw/3.3.10/gcc/12.2").rulings()
    assert ruling.reason == EVIDENCE


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_LIBRARY_PATH"])
def test_libraries_of_the_environment_that_no_wheel_brings(name: str) -> None:
    value = "/home/ada/env/v/lib" + "/libjemalloc.so" * (name == "LD_PRELOAD")
    found, ruling = listed(name, value, PathContext(places=PLACES))
    assert (found, ruling.outcome) == (None, "unresolved")
    wheel = "/home/ada/env/v/lib/python3.11/site-packages/nvidia/cudnn/lib"
    found, _ = listed("LD_LIBRARY_PATH", wheel, PathContext(places=PLACES))
    assert found == wheel.replace("/home/ada/env/v", "/opt/env")


def test_patterns_bake_and_drop() -> None:
    variables = [
        variable("MY_A", "1"),
        variable("MY_B", "2"),
        variable("MY_KEY", None),
        variable("OMP_NUM_THREADS"),
    ]
    settings, rulings = decide(*variables, bake={"MY_*": None}, drop=["OMP_*", "*_B"])
    assert settings == {"MY_A": "1"}
    assert [(r.outcome, r.kind) for r in rulings.values()] == [
        ("pinned", "decision"), ("excluded", "decision"), ("excluded", "secret"), ("excluded", "decision"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"bake names X_\*, which fits no captured variable") as err:
        decide(*variables, bake={"X_*": None})
    assert err.value.hint == "`reprobuild show DIR` lists them; secrets cannot be baked"
    with pytest.raises(UsageError, match=r"bake gives one value to the pattern MY_\*") as err:
        decide(*variables, bake={"MY_*": "1"})
    assert err.value.hint == "leave the value out, or name one"


def test_an_empty_preload_is_nothing() -> None:
    settings, rulings = decide(variable("LD_PRELOAD", ": "))
    assert settings == {}
    assert (rulings["LD_PRELOAD"].outcome, rulings["LD_PRELOAD"].reason) == ("excluded", "empty")


@pytest.mark.parametrize(
    "value",
    ["redis://:Vb7Qw2Zk9LpXs4Td@cache:6379/0", "https://ada@cache.example/x", "x; curl -u ada:users y"],
)
def test_what_would_be_cut_for_the_eyes_is_never_baked(value: str) -> None:
    """The address without a user is one that torch reads; the others a reader keeps, and an image does not."""
    variables, _ = env.parse(f"TORCHINDUCTOR_REDIS_URL={value}\n".encode())
    settings, rulings = decide(*variables)
    assert settings == {}
    ruling = rulings["TORCHINDUCTOR_REDIS_URL"]
    assert (ruling.outcome, ruling.kind) == ("excluded", "secret")
    assert value not in repr(ruling)
    settings, _ = decide(variable("TORCHINDUCTOR_REDIS_URL", value))
    assert settings == {}


def test_a_secret_is_named_and_never_told() -> None:
    text = "".join(f"{name}={value}\n" for name, value in (
        ("HF_TOKEN", SECRETS["huggingface"]), ("OMP_NOTE", SECRETS["github"]), ("MY_FLAG", SECRETS["aws-access-key"]),
    ))  # fmt: skip
    variables, _ = env.parse(text.encode())
    settings, rulings = decide(*variables)
    assert settings == {}
    assert {(r.subject, r.outcome, r.kind, r.reason) for r in rulings.values()} == {
        (name, "excluded", "secret", "a secret: supply it when the image runs")
        for name in ("HF_TOKEN", "OMP_NOTE", "MY_FLAG")
    }
    for value in SECRETS.values():
        assert value not in repr(rulings)


def test_a_value_that_cannot_be_trusted_is_unresolved_only_where_it_matters() -> None:
    torn = "the dump was sorted"
    settings, rulings = decide(
        variable("OMP_PLACES", "{0", suspect=torn), variable("FOO", "(", suspect=torn),
        variable("LD_PRELOAD", "/usr/lib/a", suspect=torn),
    )  # fmt: skip
    assert settings == {}
    assert (rulings["OMP_PLACES"].outcome, rulings["OMP_PLACES"].kind) == ("unresolved", "suspect-value")
    assert rulings["OMP_PLACES"].reason == f"its value cannot be trusted: {torn}"
    assert rulings["LD_PRELOAD"].kind == "suspect-value"
    assert rulings["FOO"].outcome == "excluded"


def test_both_lines_of_a_name_that_stands_twice_are_ruled() -> None:
    variables, _ = env.parse(b"OMP_NUM_THREADS=1\nA=1\nOMP_NUM_THREADS=2\n")
    settings, rulings = resolve_environment(variables, bake={}, drop=())
    assert settings == ()
    assert [(r.subject, r.line, r.kind) for r in rulings if r.subject != "A"] == [
        ("OMP_NUM_THREADS", 1, "suspect-value"), ("OMP_NUM_THREADS", 3, "suspect-value"),
    ]  # fmt: skip


def test_a_name_that_no_image_can_carry() -> None:
    _, rulings = decide(variable("my.var-x"))
    assert (rulings["my.var-x"].outcome, rulings["my.var-x"].reason) == (
        "excluded",
        "not a name that an image can carry",
    )


def test_the_users_word_goes_over_the_rules() -> None:
    settings, rulings = decide(
        variable("MY_FLAG", "captured"), variable("PATH", "/a"), variable("OMP_NUM_THREADS", "8"),
        variable("OMP_PLACES", "{", suspect="torn"), variable("LANG", "de_DE"),
        bake={"MY_FLAG": None, "NEW": "1", "OMP_PLACES": "cores", "PATH": "/b"}, drop=["OMP_NUM_THREADS"],
    )  # fmt: skip
    assert settings == {"MY_FLAG": "captured", "NEW": "1", "OMP_PLACES": "cores", "PATH": "/b"}
    assert (rulings["MY_FLAG"].outcome, rulings["MY_FLAG"].reason) == ("pinned", "baked by decision")
    assert (rulings["OMP_NUM_THREADS"].outcome, rulings["OMP_NUM_THREADS"].reason) == (
        "excluded",
        "dropped by decision",
    )
    assert rulings["OMP_PLACES"].reason == "baked by decision"


def test_what_is_dropped_is_not_baked() -> None:
    settings, rulings = decide(variable("FLAG", "1"), bake={"FLAG": "2"}, drop=["FLAG"])
    assert settings == {}
    assert rulings["FLAG"].reason == "dropped by decision"


@pytest.mark.parametrize(
    ("bake", "said", "hint"),
    [
        ({"a b": "1"}, "'a b' is not the name of a variable", "bake takes NAME or NAME=VALUE"),
        ({"": "1"}, "'' is not the name of a variable", "bake takes NAME or NAME=VALUE"),
        ({"NEW": None}, "bake names NEW, which was not captured", "give its value: --bake NEW=VALUE"),
        (
            {"HF_TOKEN": SECRETS["huggingface"]},
            "HF_TOKEN looks like a secret, and would be readable in the image for ever",
            "pass it when the image runs: `reprobuild run --secret HF_TOKEN`, or docker run -e HF_TOKEN ...",
        ),
        ({"GONE": None}, "GONE looks like a secret", "`reprobuild run --secret GONE`"),
        ({"FLAG": SECRETS["github"]}, "FLAG looks like a secret", "docker run -e FLAG"),
        ({"FLAG": "see https://ada:Zq7xW9pLr4T@data.example/x"}, "FLAG looks like a secret", "--secret FLAG"),
        ({"FLAG": "https://Zq7xW9pL@data.example/x"}, "FLAG looks like a secret", "--secret FLAG"),
        ({"FLAG": "a\0b"}, "the value of FLAG holds a NUL, which no environment can carry", "remove it"),
    ],
)
def test_what_cannot_be_baked(bake: dict[str, str | None], said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        decide(variable("FLAG"), variable("GONE", None, secret="token"), bake=bake)
    assert said in str(caught.value)
    assert hint in caught.value.hint
    for value in SECRETS.values():
        assert value not in str(caught.value) + caught.value.hint


CUT = [value for _, value, _ in LOGINS if secrets.redact(value) != value] + [
    "https://ada@h.example/x",
    "-u ada:users",
]


@pytest.mark.parametrize("value", CUT)
def test_what_is_cut_for_the_eyes_is_in_no_image_and_no_lock(value: str) -> None:
    """By name, by pattern, from the image below, and as a variable of a build."""
    assert secrets.holds_secret("OMP_NOTE", value)
    with pytest.raises(UsageError, match="OMP_NOTE looks like a secret"):
        decide(variable("OMP_NOTE", value), bake={"OMP_NOTE": None})
    with pytest.raises(UsageError, match="fits no captured variable"):
        decide(variable("OMP_NOTE", value), bake={"OMP_*": None})
    settings, rulings = decide(variable("OMP_NOTE", value))
    assert (settings, rulings["OMP_NOTE"].kind) == ({}, "secret")
    _, (ruling,) = inherit_environment([f"OMP_NOTE={value}"], (), ())
    assert (ruling.outcome, ruling.kind) == ("excluded", "secret")
    with pytest.raises(UsageError, match="OMP_NOTE looks like a secret"):
        build_variables("a", BuildDecision(variables={"OMP_NOTE": value}))
    assert value not in repr((rulings, ruling))
