"""Ranks that are started separately agree on a seed; a child with an empty environment finds it; the rest is said."""

import importlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import ROOT, RUNTIME, Environment, run

sys.path.insert(0, str(ROOT))
ranks = importlib.import_module("reprobuild_runtime.seeding.ranks")
inherited = importlib.import_module("reprobuild_runtime.seeding.inherit_env")
options = importlib.import_module("reprobuild_runtime.seeding.options")

SLURM = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "3"}
OMPI = {"PMIX_NAMESPACE": "prterun-head-77@1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
ELASTIC = {
    "TORCHELASTIC_RUN_ID": "job-9", "MASTER_ADDR": "node0", "MASTER_PORT": "29400", "WORLD_SIZE": "4", "RANK": "2",
    "GROUP_WORLD_SIZE": "2",
}  # fmt: skip
NO_ID = {**ELASTIC, "TORCHELASTIC_RUN_ID": "none"}
PYTORCHJOB = {"MASTER_ADDR": "train-master-0", "MASTER_PORT": "23456", "WORLD_SIZE": "2", "RANK": "1"}
INDEXED = {"JOB_COMPLETION_INDEX": "1", "HOSTNAME": "train-1"}
FLUX = {"FLUX_JOB_ID": "fuzz", "FLUX_JOB_SIZE": "2", "FLUX_TASK_RANK": "1"}
PALS = {"PALS_APID": "a-b-c", "PALS_SIZE": "2", "PALS_RANKID": "1"}
PODS = {"PET_NNODES": "1:4", "PET_RDZV_ENDPOINT": "train-worker-0:23456", "PET_RDZV_ID": "train"}


@pytest.mark.parametrize(
    ("environ", "rank", "others", "later"),
    [
        (SLURM, 3, {"SLURM_PROCID": "4", "SLURM_NODEID": "1", "SLURM_LOCALID": "2"}, {"SLURM_STEP_ID": "1"}),
        (SLURM, 3, {"SLURM_PROCID": "0"}, {"SLURM_RESTART_COUNT": "1"}),
        (
            OMPI,
            0,
            {"PMIX_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
            {"PMIX_NAMESPACE": "prterun-head-78@1"},
        ),
        (
            ELASTIC,
            2,
            {"RANK": "0", "LOCAL_RANK": "0", "SLURM_JOB_ID": "2"},
            {"TORCHELASTIC_RUN_ID": "job-10"},
        ),
        ({**NO_ID, **SLURM}, 2, {"SLURM_STEP_ID": "1", "RANK": "1"}, {"SLURM_JOB_ID": "4712"}),
        (FLUX, 1, {"FLUX_TASK_RANK": "0"}, {"FLUX_JOB_ID": "fuzzier"}),
        (PALS, 1, {"PALS_RANKID": "0"}, {"PALS_APID": "a-b-d"}),
        ({"REPROBUILD_JOB": "a"}, 0, {"RANK": "1"}, {"REPROBUILD_JOB": "b"}),
        ({**PYTORCHJOB, "REPROBUILD_JOB": "uid-1"}, 1, {"RANK": "0"}, {"REPROBUILD_JOB": "uid-2"}),
    ],
)
def test_the_ranks_of_a_job_agree_and_a_later_job_has_another_seed(
    environ: Mapping[str, str], rank: int, others: Mapping[str, str], later: Mapping[str, str]
) -> None:
    assert ranks.rank(environ) == rank
    seed, source, only_here = ranks.find_common_seed(environ)
    assert 1 <= seed < 2**31
    assert only_here
    assert ranks.find_common_seed({**environ, **others}) == (seed, source, True)
    assert ranks.find_common_seed({**environ, **later})[0] != seed


@pytest.mark.parametrize(
    ("environ", "other"),
    [
        (PYTORCHJOB, {"RANK": "0"}),
        (INDEXED, {"JOB_COMPLETION_INDEX": "12", "HOSTNAME": "train-12"}),
        (NO_ID, {"RANK": "0"}),
        (PODS, {"HOSTNAME": "train-worker-3"}),
        ({"PET_NNODES": "2", "PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "1"}, {"PET_NODE_RANK": "1"}),
    ],
)
def test_where_nothing_tells_jobs_apart_the_ranks_agree_and_that_is_said(
    hooked: Environment, environ: Mapping[str, str], other: Mapping[str, str]
) -> None:
    assert ranks.find_common_seed(environ) == ranks.find_common_seed({**environ, **other})
    said = hooked.run("pass", env=environ).err.splitlines()
    assert said[0] == f"Using seed: {ranks.find_common_seed(environ)[0]}"
    assert "all ranks of this job find this seed: it was made of " in said[1]
    assert said[2].endswith(
        "a later job with the same values finds it, too; REPROBUILD_JOB=TEXT tells jobs apart"
    )


@pytest.mark.parametrize(
    "environ",
    [
        {}, {"WORLD_SIZE": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "8"},
        {**SLURM, "SLURM_STEP_NUM_TASKS": "1"}, {"WORLD_SIZE": "x", "RANK": "-1"}, {"JOB_COMPLETION_INDEX": "1"},
        {"HOSTNAME": "train-1"}, {"RANK": "\u0663", "WORLD_SIZE": ""},
    ],
)  # fmt: skip
def test_one_process_agrees_with_nobody(environ: Mapping[str, str]) -> None:
    assert ranks.find_common_seed(environ) is None
    assert ranks.settle(dict(environ), None, lambda: 5) == (5, False, [])


def test_nothing_shared_is_said(hooked: Environment) -> None:
    env = {"WORLD_SIZE": "4", "RANK": "2"}
    runs = [
        hooked.run("import subprocess, sys; subprocess.run([sys.executable, '-c', ''])", env=env)
        for _ in range(2)
    ]
    assert runs[0].err.splitlines()[0] != runs[1].err.splitlines()[0]
    assert runs[0].err.splitlines()[1:] == [
        "reprobuild: rank 2 of 4 shares no variable with the others, so its seed is its own: "
        "give all of them REPROBUILD_SEED=N, or REPROBUILD_JOB=TEXT"
    ]


@pytest.mark.parametrize("environ", [SLURM, OMPI, ELASTIC, FLUX])
def test_entrypoint_and_hook_find_the_same(hooked: Environment, environ: Mapping[str, str]) -> None:
    entry = run(
        sys.executable, "-I", "-S", str(RUNTIME / "entrypoint.py"), str(hooked.python), "-c",
        "import os; print(os.environ['REPROBUILD_SEED'], os.environ['PYTHONHASHSEED'])", env=environ,
    )  # fmt: skip
    late = hooked.run(
        "import os; print(os.environ['REPROBUILD_SEED'], os.environ['PYTHONHASHSEED'])", env=environ
    )
    seed = ranks.find_common_seed(environ)[0]
    assert entry.out == late.out == f"{seed} {seed}\n"
    assert entry.err == late.err
    assert entry.err.count("Using seed") == 1


def settled(seed: str) -> dict[str, str]:
    return {
        "REPROBUILD_ENVIRON": "/opt/reprobuild", "REPROBUILD_SEED_EXPLICIT": "0", "REPROBUILD_SEED": seed,
        "PYTHONHASHSEED": seed, "REPROBUILD_SETTLED": f"REPROBUILD_SEED={seed} PYTHONHASHSEED={seed}",
    }  # fmt: skip


SHOW = "import os; print(os.environ['REPROBUILD_SEED'], os.environ['PYTHONHASHSEED'])"


@pytest.mark.parametrize("environ", [ELASTIC, OMPI])
def test_a_seed_that_each_node_drew_gives_way_to_that_of_all(
    hooked: Environment, environ: Mapping[str, str]
) -> None:
    nodes = [hooked.run(SHOW, env={**environ, **settled(seed)}) for seed in ("5", "6")]
    seed = ranks.find_common_seed(environ)[0]
    assert nodes[0].out == nodes[1].out == f"{seed} {seed}\n"
    assert nodes[0].err.splitlines()[0] == f"Using seed: {seed}"
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    ran = run(str(hooked.python), "-c", child, SHOW, env={**environ, **settled("5")})
    assert ran.out == nodes[0].out
    assert ran.err.count("Using seed") == 1


@pytest.mark.parametrize(
    "environ",
    [{**ELASTIC, "GROUP_WORLD_SIZE": "1"}, {**OMPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, SLURM, PYTORCHJOB],
)
def test_ranks_below_one_launch_keep_what_it_drew(hooked: Environment, environ: Mapping[str, str]) -> None:
    ran = hooked.run(SHOW, env={**environ, **settled("5")})
    assert (ran.out, ran.err) == ("5 5\n", "")


def test_a_chosen_seed_is_never_changed(hooked: Environment) -> None:
    env = {**ELASTIC, **settled("5"), "REPROBUILD_SEED_EXPLICIT": "1"}
    assert hooked.run(SHOW, env=env).out == "5 5\n"


def test_enforcing_without_a_seed_agrees_on_all_ranks_each_time(hooked: Environment) -> None:
    code = (
        "import json; from reprobuild_runtime import enforce_reproducibility as f\n"
        "print(json.dumps([f(), f(), f(9), f()]))"
    )
    one, two = (hooked.run(code, env={**SLURM, "SLURM_PROCID": rank}).json for rank in "01")
    assert one == two
    assert len(set(one)) == 4
    away = (
        "import os, sys; sys.meta_path.pop(0)\n"
        "for name in list(os.environ): 'SEED' in name and os.environ.pop(name)\n"
    )
    bare = [hooked.run(away + code, env={**SLURM, "SLURM_PROCID": rank}).json for rank in "01"]
    assert bare == [one, one]


SCRUBBED = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], env={})"
TOLD = (
    "import os, random\n"
    "print(os.environ['REPROBUILD_SEED'], os.environ['REPROBUILD_SEED_EXPLICIT'], random.random())"
)


def test_a_child_with_an_empty_environment_finds_the_seed(hooked: Environment) -> None:
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7"}
    direct = hooked.run(TOLD, env=env)
    scrubbed = run(str(hooked.python), "-c", SCRUBBED, TOLD, env=env)
    assert (scrubbed.out, scrubbed.err) == (
        direct.out,
        "",
    )  # whose lines would stand in what its parent reads
    through_shell = (
        "import subprocess, sys\n"
        "shell = ['env', '-i', '/bin/sh', '-c', '\"$0\" -c \"$1\"; true']\n"
        "subprocess.run([*shell, sys.executable, sys.argv[1]])"
    )
    assert run(str(hooked.python), "-c", through_shell, TOLD, env=env).out == direct.out


def test_a_drawn_seed_is_found_below_the_entrypoint(hooked: Environment) -> None:
    ran = run(
        sys.executable, "-I", "-S", str(RUNTIME / "entrypoint.py"), str(hooked.python), "-c",
        f"import os; print(os.environ['REPROBUILD_SEED'], flush=True)\n{SCRUBBED}", TOLD,
    )  # fmt: skip
    assert ran.out.split()[:3] == [ran.out.split()[0], ran.out.split()[0], "0"]
    assert ran.err.count("Using seed") == 1


def test_an_empty_variable_wants_no_seed_of_a_parent(hooked: Environment) -> None:
    code = SCRUBBED.replace("env={}", "env={'REPROBUILD_SEED': ''}")
    ran = run(str(hooked.python), "-c", code, TOLD, env={"REPROBUILD_SEED": "7"})
    assert ran.out.split()[1] == "0"
    assert ran.out.split()[0] != "7"


def test_parents_that_cannot_be_read_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    environ: dict[str, str] = {}
    monkeypatch.setattr(inherited, "MOST_PARENTS", 0)
    assert not inherited.inherit_variables(environ, ("REPROBUILD_SEED",))
    assert inherited._parent(2**31) == 0
    assert inherited._variables(2**31, ("PATH",)) == {}
    assert environ == {}


def test_only_our_variables_are_taken() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from reprobuild_runtime.seeding import inherit_env\n"
        "found = {'B': 'own'}; print(inherit_env.inherit_variables(found, ('A', 'B')), sorted(found.items()))"
    )
    scrubbed = SCRUBBED.replace("'-c'", "'-S', '-c'")
    done = subprocess.run(
        [sys.executable, "-S", "-c", scrubbed, code],
        env={"A": "1\n2", "B": "2", "SECRET": "x"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "True [('A', '1\\n2'), ('B', 'own')]\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["python", "-S", "x.py"], "nothing is seeded"),
        (["/opt/env/bin/python3.11", "-BS", "x.py"], "nothing is seeded"),
        (["python3", "-W", "error", "-X", "dev", "-IS", "-c", "1"], "nothing is seeded"),
        (["python3.13t", "-Werror", "-E", "x.py"], "hash order is not seeded"),
        (["python", "-I", "-m", "torch"], "hash order is not seeded"),
    ],
)
def test_options_that_keep_the_hook_out_are_said_by_the_entrypoint(command: list[str], said: str) -> None:
    assert said in options.uncovered(command)[0]


@pytest.mark.parametrize(
    "command",
    [
        [], ["python"], ["python", "x.py", "-S"], ["python", "-m", "x", "-S"], ["python", "-c", "-S"], ["sh", "-S"],
        ["pythonic", "-S"], ["python", "-WS", "x"], ["python", "-W", "-S", "x"], ["python", "--", "-S"],
        ["python", "-", "-S"], ["python", "-uc", "1", "-S"], ["python", "-W"],
    ],
)  # fmt: skip
def test_other_commands_are_not_spoken_of(command: list[str]) -> None:
    assert options.uncovered(command) == []
    collecting = [
        "/x/bin/python",
        "-I",
        "-S",
        "/y/reprobuild_runtime/artefacts/collect.py",
        "/out",
        "a",
        "--",
    ]
    assert options.uncovered(options.user_command([*collecting, *command])) == []
    assert options.uncovered(options.user_command([*collecting, "python", "-S", "train.py"]))


def test_the_entrypoint_says_it(hooked: Environment) -> None:
    ran = run(
        sys.executable, "-I", "-S", str(RUNTIME / "entrypoint.py"), str(hooked.python), "-S", "-c", "print(1)"
    )
    assert ran.out == "1\n"
    assert ran.err.splitlines()[1] == (
        "reprobuild: -S keeps the seeding hook out of this interpreter: nothing is seeded in it"
    )


def test_environments_made_by_venv_have_the_hook(hooked: Environment, tmp_path: Path) -> None:
    folder = tmp_path / "made"
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7"}
    made = run(str(hooked.python), "-m", "venv", "--without-pip", str(folder), env=env)
    assert (made.code, made.err) == (0, "")
    code = "import json, random, sys; print(json.dumps([sys.prefix, random.random()]))"
    assert run(str(folder / "bin" / "python"), "-c", code, env=env).json == [
        str(folder), hooked.run(code, env=env).json[1]
    ]  # fmt: skip
    (site,) = (folder / "lib").glob("python3.*/site-packages")
    assert (site / "reprobuild.start").read_text() == "reprobuild_hook:start\n"
    code = "import json, pkgutil, random, sys; del sys.modules['random']; sys.meta_path.pop(0)\n"
    code += "pkgutil.resolve_name('reprobuild_hook:start')(); import random; print(random.random())"
    assert float(run(str(folder / "bin" / "python"), "-c", code, env=env).out) == random.Random(7).random()
    assert json.loads(run(str(hooked.python), "-m", "json.tool", stdin="[1]").out) == [1]


def test_such_an_environment_runs_silently_where_our_folder_is_not(tmp_path: Path) -> None:
    ours = tmp_path / "it's {ours} é"
    shutil.copytree(RUNTIME, ours / RUNTIME.name)
    made = tmp_path / "made"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import venv; from reprobuild_runtime.seeding import venv_hook\n"
        "venv_hook.hook_into(venv); venv.create(sys.argv[2], symlinks=True)"
    )
    assert run(sys.executable, "-c", code, str(ours), str(made)).err == ""
    python, env = str(made / "bin" / "python"), {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "0"}
    code = "import random, sys; print(random.random(), sys.path[-1])"
    assert run(python, "-c", code, env=env).out == f"{random.Random(7).random()} {ours}\n"
    ours.rename(tmp_path / "elsewhere")
    ran = run(python, "-c", "import pkgutil; print(pkgutil.resolve_name('reprobuild_hook:start')())", env=env)
    assert (ran.out, ran.err) == ("None\n", "")
