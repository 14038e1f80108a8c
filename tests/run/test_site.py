"""Which of this machine's variables a container is given, and what is said where two values meet."""

from __future__ import annotations

import re

import pytest

from reprobuild.engines.model import Task
from reprobuild.resolve.environment.environment import read_environment_rules as captured
from reprobuild.run.options import RunOptions
from reprobuild.run.run import prepare
from reprobuild.run.site_env import (
    count_processes,
    display_value,
    is_first,
    kind_of,
    read_rules,
    select_site_env,
)
from reprobuild_portable.launchers import JOB, LAUNCHERS, NAMESPACE, WORKER_OF_TORCHRUN
from reprobuild_runtime.seeding import ranks
from tests.verify.samples import make_lock

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SITE = {
    "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "NCCL_SOCKET_IFNAME": "ib0", "UCX_TLS": "rc,self",
    "CUDA_VISIBLE_DEVICES": "1", "PATH": "/site/bin", "HOME": "/home/u", "MY_OWN": "x", "NCCL_ALGO": "Tree",
}  # fmt: skip


def let(env: dict[str, str], **more: dict[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    found = select_site_env(env, more.get("frozen", {}), more.get("given", {}), named_gpus=False)
    return found.values, found.conflicts


def test_every_rule_says_where_its_names_are_documented() -> None:
    assert len(read_rules()) > 15
    for _, rule in read_rules():
        assert re.match(r"https://|docs/", rule.source)
        assert rule.kind in ("scheduler", "launcher", "device", "fabric", "sums")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SLURM_PROCID", "scheduler"), ("JOB_COMPLETION_INDEX", "scheduler"), ("RANK", "launcher"),
        ("PMIX_RANK", "launcher"), ("ROCR_VISIBLE_DEVICES", "device"), ("NCCL_IB_HCA", "fabric"),
        ("FI_PROVIDER", "fabric"), ("OMPI_MCA_btl_tcp_if_include", "fabric"), ("REPROBUILD_JOB", "launcher"),
        ("NCCL_ALGO", "sums"), ("NCCL_PROTO", "sums"), ("NCCL_NVLS_ENABLE", "sums"), ("OMPI_MCA_coll", "sums"),
        ("OMPI_MCA_coll_tuned_allreduce_algorithm", "sums"), ("HCOLL_MAIN_IB", "fabric"),
        ("HCOLL_ENABLE_MCAST", "sums"), ("NCCL_CROSS_NIC", "sums"),
        ("NCCL_TUNER_PLUGIN", "sums"), ("NCCL_NET_PLUGIN", "fabric"), ("UCC_TL_UCP_TUNE", "sums"),
        ("SHARP_COLL_ENABLE_SAT", "sums"), ("OMPI_MCA_pml", "fabric"), ("SLURM_JWT", ""),
        ("LD_PRELOAD", ""), ("PATH", ""), ("http_proxy", ""),
        ("PMIX_SERVER_URI2", ""), ("XSLURM_JOB_ID", ""), ("OMP_NUM_THREADS", ""),
    ],
)  # fmt: skip
def test_kinds(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_what_is_let_in_was_left_out_of_the_image() -> None:
    """A captured variable of the site is no part of an image: else a site's own would never come in."""
    for name in (
        "SLURM_JOB_ID",
        "RANK",
        "CUDA_VISIBLE_DEVICES",
        "NCCL_SOCKET_IFNAME",
        "UCX_TLS",
        "FI_PROVIDER",
    ):
        rule = next(rule for pattern, rule in captured() if pattern.fullmatch(name))
        assert (rule.treatment, kind_of(name) != "") == ("drop", True), name


def test_the_site_s_and_nothing_else() -> None:
    values, said = let(SITE)
    assert sorted(values) == [
        "CUDA_VISIBLE_DEVICES", "NCCL_SOCKET_IFNAME", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "UCX_TLS",
    ]  # fmt: skip
    assert said == ("NCCL_ALGO: decides the order of sums, and stays outside; --env NCCL_ALGO hands it on",)


def test_no_site_decides_the_order_of_sums() -> None:
    names = (
        "HCOLL_ENABLE_SHARP", "NCCL_PROTO", "OMPI_MCA_coll_tuned_allreduce_algorithm", "SHARP_COLL_ENABLE_SAT",
    )  # fmt: skip
    values, said = let({**dict.fromkeys(names, "1"), "OMPI_MCA_btl": "tcp,self"})
    assert values == {"OMPI_MCA_btl": "tcp,self"}
    assert said == tuple(
        f"{name}: decides the order of sums, and stays outside; --env {name} hands it on" for name in names
    )
    assert let({"HCOLL_NP": "a"}, given={"HCOLL_NP": "a"})[1] == ()


@pytest.mark.parametrize(
    "names",
    [
        "NCCL_ALGO NCCL_PROTO NCCL_NTHREADS NCCL_BUFFSIZE NCCL_MAX_CTAS NCCL_NVLS_ENABLE NCCL_COLLNET_ENABLE",
        "NCCL_CROSS_NIC NCCL_TUNER_PLUGIN NCCL_TREE_THRESHOLD OMPI_MCA_coll OMPI_MCA_coll_hcoll_enable",
        "HCOLL_BCOL SHARP_COLL_ENABLE_SAT UCC_CL_BASIC_TLS I_MPI_ADJUST_ALLREDUCE I_MPI_CBWR CCL_ALLREDUCE",
        "NCCL_SOCKET_IFNAME NCCL_IB_HCA NCCL_NET NCCL_NET_GDR_LEVEL NCCL_OOB_NET_IFNAME NCCL_TOPO_FILE NCCL_DEBUG",
        "NCCL_GRAPH_FILE NCCL_CONF_FILE NCCL_TUNER_CONFIG_FILE UCC_CONFIG_FILE UCC_COMPONENT_PATH I_MPI_TUNING_BIN",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename MPIR_CVAR_CH4_COLL_SELECTION_TUNING_JSON_FILE",
        "MPICH_COLL_OPT_OFF MPICH_ALLREDUCE_NO_SMP MPICH_REDUCE_NO_SMP MPICH_SHARED_MEM_COLL_OPT",
        "MPICH_REDUCE_SCATTER_MAX_COMMSIZE MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM MPIR_CVAR_ENABLE_SMP_ALLREDUCE",
        "MPIR_CVAR_IREDUCE_SCATTER_INTRA_ALGORITHM MPIR_CVAR_DEVICE_COLLECTIVES MV2_INTER_ALLREDUCE_TUNING",
        "UCC_TL_SHARP_DEVICES UCC_LOG_FILE SHARP_SMX_SOCK_INTERFACE NCCL_NETDEVS_POLICY",
        "NCCL_COMM_ID UCX_TLS FI_PROVIDER OMPI_MCA_pml OMPI_MCA_btl_tcp_if_include HCOLL_MAIN_IB MPICH_OFI_NIC_POLICY",
    ],
)  # fmt: skip
def test_what_is_frozen_and_what_is_let_in_have_one_rule(names: str) -> None:
    """What is put into an image is not taken from a site, and the other way round."""
    for name in names.split():
        rule = next(rule for pattern, rule in captured() if pattern.fullmatch(name))
        frozen = rule.kind == "numerics" and rule.treatment == "bake"
        assert (frozen, rule.kind == "fabric") == (kind_of(name) == "sums", kind_of(name) == "fabric"), name


def test_frozen_ones_are_kept_and_said() -> None:
    values, said = let(SITE, frozen={"NCCL_ALGO": "Ring", "UCX_TLS": "tcp", "PATH": "/opt/env/bin"})
    assert "UCX_TLS" not in values
    assert said == (
        "NCCL_ALGO: the frozen value is kept (here Tree, in the image Ring); "
        "--env NCCL_ALGO takes this machine's",
        "UCX_TLS: the frozen value is kept (here rc,self, in the image tcp); --env UCX_TLS takes this machine's",
    )
    assert let(SITE, frozen={"NCCL_ALGO": "Tree"})[1] == ()


def test_what_the_user_gives_comes_first_and_is_said() -> None:
    values, said = let(SITE, frozen={"NCCL_ALGO": "Ring"}, given={"NCCL_ALGO": "Tree", "UCX_TLS": "self"})
    assert "UCX_TLS" not in values
    assert said == ("NCCL_ALGO: the given value is used, and not the frozen one (Ring)",)


def test_a_secret_is_neither_let_in_nor_shown() -> None:
    env = {"SLURM_COMMENT": TOKEN, "OMP_NUM_THREADS": TOKEN, "NCCL_SOCKET_IFNAME": f"key={TOKEN}"}
    values, said = let(env, frozen={"OMP_NUM_THREADS": "4"})
    assert values == {}
    assert len(said) == 3
    assert TOKEN not in "".join(said)
    assert "SLURM_COMMENT: looks like a secret, and stays outside; --secret SLURM_COMMENT hands it on" in said
    assert display_value("A", "a\x1b[31m\nb") == "a\\x1b[31m\\nb"
    assert len(display_value("A", "word " * 100)) < 100


def test_named_gpus_are_counted_anew() -> None:
    found = select_site_env({"CUDA_VISIBLE_DEVICES": "3"}, {}, {}, named_gpus=True)
    assert found.values == {}
    assert found.conflicts == ("CUDA_VISIBLE_DEVICES: stays outside; the GPUs are those that --gpu names",)


@pytest.mark.parametrize(
    ("env", "number"),
    [
        ({}, 1), ({"WORLD_SIZE": "4"}, 4), ({"SLURM_STEP_NUM_TASKS": "3", "WORLD_SIZE": "1"}, 3),
        ({"SLURM_STEP_NUM_TASKS": "3", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "none"}, 1),
        ({"PMIX_NAMESPACE": "a@1"}, 2), ({"PMIX_NAMESPACE": "a@1", "OMPI_COMM_WORLD_SIZE": "1"}, 1),
        ({"HOROVOD_SIZE": "4"}, 4), ({"TORCHELASTIC_RUN_ID": "none"}, 1),
        ({"PMI_SIZE": "x"}, 1),
        ({"SLURM_NTASKS": "8"}, 1), ({"JSM_NAMESPACE_SIZE": "6"}, 6), ({"MV2_COMM_WORLD_SIZE": "2"}, 2),
        ({"PET_NNODES": "3"}, 3), ({"PET_NNODES": "1:4"}, 2), ({"WORLD_SIZE": "0"}, 1), ({"WORLD_SIZE": ""}, 1),
        ({"WORLD_SIZE": "²", "PMI_SIZE": "5"}, 5), ({"REPROBUILD_JOB": "x"}, 2),
        ({"JOB_COMPLETION_INDEX": "1", "HOSTNAME": "train-1"}, 2), ({"JOB_COMPLETION_INDEX": "1", "HOSTNAME": "n"}, 1),
        ({"PMI_SIZE": "2", "OMPI_COMM_WORLD_SIZE": "8"}, 8),
    ],
)  # fmt: skip
def test_how_many_processes(env: dict[str, str], number: int) -> None:
    """The seed and the network have one opinion of what a job of several processes is."""
    assert count_processes(env) == number
    assert ranks.size(env) == number


def test_the_seed_and_the_network_ask_the_same_variables() -> None:
    ours = (LAUNCHERS, WORKER_OF_TORCHRUN, NAMESPACE, JOB)
    assert ours == (ranks.LAUNCHERS, ranks.WORKER_OF_TORCHRUN, ranks.NAMESPACE, ranks.JOB)


def test_what_the_seed_is_made_of_comes_in() -> None:
    shared = {name.partition("=")[0] for needed, more, _ in ranks.SHARED for name in (*needed, *more)}
    assert [name for name in (*ranks.SIZES, *ranks.RANKS, *sorted(shared)) if not kind_of(name)] == []


def test_one_process_of_a_job_speaks_for_all() -> None:
    assert is_first({})
    assert is_first({"SLURM_PROCID": "0"})
    assert not is_first({"SLURM_PROCID": "2"})
    assert not is_first({"RANK": "1", "SLURM_PROCID": "0"})
    assert not is_first({"RANK": "", "MV2_COMM_WORLD_RANK": "1", "PMI_RANK": "0"})
    assert is_first({"JSM_NAMESPACE_RANK": "00", "SLURM_PROCID": "3"})
    for name in ranks.RANKS:
        assert not is_first({name: "1"})
        assert is_first({name: "one"})


LEFT = {"RANK": "0", "WORLD_SIZE": "1"}


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({**LEFT, "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}, 3),
        ({**LEFT, "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "8"}, 2),
        ({**LEFT, "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "8", "TORCHELASTIC_RUN_ID": "none"}, 0),
        ({"RANK": "64", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "8"}, 0),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"}, 1),
        ({"WORLD_SIZE": "8", "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8"}, 5),
        ({"RANK": "1", "WORLD_SIZE": "", "PMI_RANK": "0", "PMI_SIZE": "1"}, 1),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "4"}, 1),
    ],
)
def test_who_has_started_several_tells_the_rank(env: dict[str, str], rank: int) -> None:
    """The seed and the one that speaks for all have one opinion of who this process is."""
    assert ranks.rank(env) == rank
    assert is_first(env) == (rank == 0)


def task(wanted: RunOptions, **env: str) -> tuple[Task, tuple[str, ...]]:
    ready = prepare(make_lock(), ("python", "x.py"), wanted, env)
    return ready.task, ready.said


def test_what_a_command_has_when_nothing_is_asked() -> None:
    found, said = task(RunOptions(seed=7, gpus="none"))
    assert (found.arguments, found.bypass, found.environment) == (
        ("python", "x.py"),
        False,
        {"REPROBUILD_SEED": "7"},
    )
    assert (found.network, found.user, found.limits, found.generous, said) == ("none", "", (), True, ())
    assert found.shared_memory >= 1 << 30


def test_a_process_of_several_has_the_host_s_network() -> None:
    found, said = task(RunOptions(gpus="none"), SLURM_STEP_NUM_TASKS="3", SLURM_PROCID="1")
    assert (found.network, found.environment["SLURM_PROCID"]) == ("host", "1")
    assert said == (
        "network: the host's, since this is one of several processes of a job; --network none cuts it off",
    )
    assert task(RunOptions(gpus="none", network="none"), SLURM_STEP_NUM_TASKS="3")[0].network == "none"


def test_who_writes_to_a_mounted_folder() -> None:
    assert task(RunOptions(volumes=("/a:/b",)))[0].user == "caller"
    assert task(RunOptions(volumes=("/a:/b:ro",)))[0].user == ""
    assert task(RunOptions(volumes=("/a:/b:ro", "c:/d:rw")))[0].user == "caller"
    assert task(RunOptions(volumes=("/a:/b",), user="image"))[0].user == ""
    assert task(RunOptions(user="12:13"))[0].user == "12:13"


@pytest.mark.parametrize(
    ("volumes", "workdir", "record"),
    [
        (("/a:/out", "/b:/more"), "", "/out/reprobuild-record"),
        (("/a:/data:ro", "/b:/out/"), "", "/out/reprobuild-record"),
        (("/a:/data:ro",), "", None),
        (("/a:/out",), "/out/run", None),  # the start directory is of this machine
        (("/a:/out",), "/output", "/out/reprobuild-record"),
        ((), "", None),
    ],
)
def test_the_record_is_kept(volumes: tuple[str, ...], workdir: str, record: str | None) -> None:
    found, _ = task(RunOptions(volumes=volumes, workdir=workdir))
    assert found.environment.get("REPROBUILD_RECORD") == record
    found, _ = task(RunOptions(volumes=volumes, workdir=workdir, variables=("REPROBUILD_RECORD=0",)))
    assert found.environment["REPROBUILD_RECORD"] == "0"


def test_another_folder_keeps_the_entrypoint() -> None:
    found, _ = task(RunOptions(workdir="/data"))
    assert found.bypass
    assert found.workdir == "/data"
    assert found.arguments[-2:] == ("python", "x.py")
    assert found.arguments[-3].endswith("reprobuild_runtime/entrypoint.py")


def test_secrets_stand_in_no_words() -> None:
    found, said = task(RunOptions(hidden=("WANDB_API_KEY",)), WANDB_API_KEY=TOKEN)
    assert found.environment["WANDB_API_KEY"] == TOKEN
    assert found.hidden == {"WANDB_API_KEY"}
    found, said = task(RunOptions(variables=(f"HF_TOKEN={TOKEN}",)))
    assert found.hidden == {"HF_TOKEN"}
    assert said == ("--env HF_TOKEN: its value stands on the command line; --secret HF_TOKEN keeps it off",)
