"""What is settled above and what is set below: a seed that is chosen inside a container, values that are ours."""

import ctypes
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import ROOT, RUNTIME, TORCH, Environment, make_environment, run

sys.path.insert(0, str(ROOT))
from reprobuild_runtime import applied_env

ENTRYPOINT = [sys.executable, "-I", "-S", str(RUNTIME / "entrypoint.py")]
TORCH_OF_A_SEED = TORCH.replace("return 2**40 + 5", "return calls[-1][1]")
DATA = json.loads((RUNTIME / "profiles" / "profiles.json").read_text())
TELL = (
    "import json, os, torch; print(json.dumps([hash('x'), torch.seen(), "
    "{k: v for k, v in os.environ.items() if k.startswith(('REPROBUILD_SEED', 'PYTHONHASH', 'NCCL'))}]))"
)


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = make_environment(tmp_path_factory.mktemp("inside"))
    made.install(torch=TORCH_OF_A_SEED)
    return made


def below(
    inside: Environment, assigned: str, code: str, *options: str, env: Mapping[str, str]
) -> tuple[str, str]:
    """Run a program below the entrypoint, from a shell that assigns variables; return what it printed."""
    words = " ".join(options)
    command = f'{assigned} exec "$0" {words} -c "$1"'
    ran = run(*ENTRYPOINT, "sh", "-c", command, str(inside.python), code, env=env)
    assert ran.code == 0, ran.err
    return ran.out, ran.err.partition("\n")[2]  # after the entrypoint's "Using seed"


LATE = "hash order is not seeded"


def test_a_seed_chosen_below_a_drawn_one_is_chosen(inside: Environment) -> None:
    found = [below(inside, "REPROBUILD_SEED=9 REPROBUILD_PROFILE=strict", TELL, env={}) for _ in "12"]
    for out, said in found:
        _, torch, environ = json.loads(out)
        assert torch["calls"][0] == ["torch", 9]
        assert torch["flags"] == [True, False]  # the profile is in force
        assert (environ["REPROBUILD_SEED"], environ["REPROBUILD_SEED_EXPLICIT"]) == ("9", "1")
        assert (environ["PYTHONHASHSEED"], environ["NCCL_ALGO"]) == ("9", "Ring")
        lines = said.splitlines()
        assert lines[0] == "Using seed: 9"
        assert lines[1].startswith("reprobuild: PYTHONHASHSEED was ")
        assert lines[1].endswith(f", of another seed, when this interpreter started; {LATE}")
        assert LATE not in "".join(lines[2:])


def test_another_seed_below_a_chosen_one(inside: Environment) -> None:
    code = f"import subprocess, sys\nchild = {TELL!r}\nsubprocess.run([sys.executable, '-c', child])"
    out, said = below(inside, "REPROBUILD_SEED=9", code, env={"REPROBUILD_SEED": "7"})
    assert said.splitlines() == [
        "Using seed: 9",
        f"reprobuild: PYTHONHASHSEED was 7, of another seed, when this interpreter started; {LATE}",
    ]
    whole = run(*ENTRYPOINT, str(inside.python), "-c", TELL, env={"REPROBUILD_SEED": "9"})
    assert json.loads(out) == whole.json  # a child has all of the new seed, its hash order, too


def test_the_record_says_that_another_seeds_hash_order_is_in_force(
    inside: Environment, tmp_path: Path
) -> None:
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_RECORD": str(tmp_path)}
    below(inside, "REPROBUILD_SEED=9", "import torch", env=env)
    (path,) = tmp_path.iterdir()
    record = json.loads(path.read_text())
    assert record["start"]["requested"]["explicit"] is True
    assert [one["setting"] for one in record["overrides"]] == ["PYTHONHASHSEED"]


@pytest.mark.parametrize(
    ("assigned", "said"),
    [
        ("PYTHONHASHSEED=3 REPROBUILD_SEED=9", ["Using seed: 9"]),
        ("PYTHONHASHSEED=3", []),
        ("REPROBUILD_SEED=7", []),
    ],
)
def test_a_hash_seed_of_ones_own_stays(inside: Environment, assigned: str, said: list[str]) -> None:
    out, err = below(inside, assigned, TELL, env={"REPROBUILD_SEED": "7"})
    assert json.loads(out)[2]["PYTHONHASHSEED"] == ("3" if "=3" in assigned else "7")
    assert err.splitlines() == said


@pytest.mark.parametrize("options", [("-I",), ("-E",)])
def test_a_child_without_pythons_variables_says_nothing_unless_it_is_work(
    inside: Environment, options: tuple[str]
) -> None:
    env = {"REPROBUILD_SEED": "7"}
    assert below(inside, "", "print(42)", *options, env=env) == ("42\n", "")
    children = "import subprocess, sys, torch\nsubprocess.run([sys.executable, '-I', '-c', 'import torch'])"
    assert below(inside, "", children, *options, env=env) == (
        "", f"reprobuild: PYTHONHASHSEED is ignored under -E and -I; {LATE}\n",
    )  # fmt: skip


def test_a_child_with_an_empty_environment_says_nothing_unless_it_is_work(inside: Environment) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', {!r}], env={{}})"
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_RECORD": ""}
    assert below(inside, "", child.format("print(42)"), env=env) == ("42\n", "")
    assert below(inside, "", child.format("import torch"), env=env) == (
        "", f"reprobuild: PYTHONHASHSEED was not set before this interpreter started; {LATE}\n",
    )  # fmt: skip


def test_a_random_hash_seed_is_the_users_choice_and_said_once(inside: Environment) -> None:
    env = {"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "random"}
    chosen = f"reprobuild: PYTHONHASHSEED is random, as it was set; {LATE}\n"
    assert below(inside, "", "import os, torch; print(os.environ['PYTHONHASHSEED'])", env=env) == (
        "random\n",
        chosen,
    )
    assert below(inside, "PYTHONHASHSEED=random", "print(42)", env={"REPROBUILD_SEED": "7"}) == ("42\n", "")
    assert below(inside, "PYTHONHASHSEED=random", "import torch", env={"REPROBUILD_SEED": "7"}) == (
        "",
        chosen,
    )


def test_no_record_stays_no_record_in_an_empty_environment(inside: Environment, tmp_path: Path) -> None:
    child = f"import os; os.chdir({str(tmp_path)!r}); import torch"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], env={{}})"
    below(inside, "", code, env={"REPROBUILD_SEED": "7", "REPROBUILD_RECORD": "0"})
    assert list(tmp_path.iterdir()) == []
    below(inside, "", code, env={"REPROBUILD_SEED": "7", "REPROBUILD_RECORD": str(tmp_path / "here")})
    assert len(list((tmp_path / "here").iterdir())) == 1


TITLE = """
import ctypes, os
for name, value in list(os.environ.items()):
    os.environ[name] = value
with open("/proc/self/stat") as file:
    fields = file.read().rpartition(")")[2].split()
ctypes.memset(int(fields[47]), 120, int(fields[48]) - int(fields[47]))  # as setproctitle does it
from reprobuild_runtime import settings
print(settings.hash_order_is_chosen(), open("/proc/self/environ").read()[:3])
"""


def test_a_program_that_writes_over_its_environment(inside: Environment) -> None:
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    assert below(inside, "", TITLE, env={"REPROBUILD_SEED": "7"})[0] == "True xxx\n"
    assert below(inside, "", TITLE, env={})[0] == "False xxx\n"


def test_what_profiles_set_can_be_noted() -> None:
    """The note has one word for each variable."""
    for profile in DATA["profiles"].values():
        for entry in profile["settings"]:
            if "." not in entry["name"] and entry["value"] is not None and not entry.get("append"):
                assert entry["value"].split() == [entry["value"]]
    environ = {"A": "1"}
    applied_env.put(environ, "A", "2")
    applied_env.put(environ, "B", "3")
    applied_env.put(environ, "A", "4")
    environ["B"] = "5"
    assert applied_env.names(environ) == ["A"]
    assert [applied_env.has_our_value(environ, name) for name in "ABC"] == [True, False, False]


ENFORCE = (
    "import json, os, sys, torch\nfrom reprobuild_runtime import enforce_reproducibility as e\n{}\n"
    "print(json.dumps([torch.seen()['flags'], {{k: os.environ[k] for k in os.environ if k[:5] == 'NCCL_'}}]))"
)


def test_ones_own_value_that_another_profile_has_too_stays(inside: Environment) -> None:
    out, said = below(
        inside, "NCCL_ALGO=Ring", ENFORCE.format("e(7, profile='vllm')"), env={"REPROBUILD_SEED": "7"}
    )
    assert json.loads(out)[1]["NCCL_ALGO"] == "Ring"
    assert "profile vllm wants NCCL_ALGO allreduce:tree; it is Ring, and stays so" in said


def test_a_value_of_ours_gives_way_to_another_profiles(inside: Environment) -> None:
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_PROFILE": "strict"}
    for assigned, code in (("", "e(7, profile='vllm')"), ("REPROBUILD_SEED=9 REPROBUILD_PROFILE=vllm", "")):
        out, said = below(inside, assigned, ENFORCE.format(code), env=env)
        assert json.loads(out)[1]["NCCL_ALGO"] == "allreduce:tree"
        assert "stays so" not in said


def test_a_profile_that_sets_less_takes_back_what_another_set(inside: Environment) -> None:
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_PROFILE": "strict"}
    assert json.loads(below(inside, "", ENFORCE.format(""), env=env)[0])[0] == [True, False]
    out, said = below(inside, "NCCL_NVLS_ENABLE=1", ENFORCE.format("e(7, profile='log-only')"), env=env)
    assert json.loads(out) == [[False, True], {"NCCL_NVLS_ENABLE": "1"}]
    assert "OMP_DYNAMIC, MKL_DYNAMIC, set for another profile: torch is imported already" in said


def test_what_the_program_changed_is_not_taken_back(inside: Environment) -> None:
    env = {"REPROBUILD_SEED": "7"}
    code = "torch.backends.cudnn.deterministic = 'mine'; e(7, profile='log-only')"
    assert json.loads(below(inside, "", ENFORCE.format(code), env=env)[0])[0] == ["mine", True]


TENSORFLOW = """
import sys, types
random = types.SimpleNamespace(set_seed=lambda seed: None)
config = types.SimpleNamespace(experimental=types.SimpleNamespace(enable_op_determinism=lambda: None))
"""


def test_what_cannot_be_taken_back_is_said(bare: Environment) -> None:
    bare.install(tensorflow=TENSORFLOW)
    (bare.site / "tensorflow-2.16.1.dist-info").mkdir()
    env = {"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7", "REPROBUILD_PROFILE": "tensorflow"}
    code = "import tensorflow; from reprobuild_runtime import enforce_reproducibility as e; e(7, 'log-only')"
    said = "enable_op_determinism, set for another profile: it cannot be taken back"
    assert said in bare.run(code, env=env).err


def test_a_profile_of_the_environment_that_is_none_ends_no_job(inside: Environment) -> None:
    env = {"REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7", "REPROBUILD_PROFILE": "typo"}
    ran = inside.run("from reprobuild_runtime import enforce_reproducibility as e; print(e(7))", env=env)
    assert (ran.code, ran.out) == (0, "7\n")
    assert ran.err.splitlines()[-1] == "reprobuild: no profile is in force: there is no profile 'typo'"
    code = (
        "from reprobuild_runtime import enforce_reproducibility as e\n"
        "try: e(7, 'typo')\nexcept ValueError as err: print(err.hint[:24])"
    )
    assert inside.run(code, env=env).out == "give REPROBUILD_PROFILE \n"


def test_an_empty_variable_is_a_choice_and_said(inside: Environment) -> None:
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_PROFILE": "strict", "NCCL_ALGO": ""}
    ran = run(*ENTRYPOINT, "printenv", "NCCL_ALGO", env=env)
    assert ran.out == "\n"
    assert (
        ran.err.splitlines()[1]
        == "reprobuild: profile strict wants NCCL_ALGO Ring; it is empty, and stays so"
    )
