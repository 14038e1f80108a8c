"""The command line that is formed for pyxis, which is not in Debian: by an srun that writes down what it was given."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.engines import gpu
from reprobuild.image.formats.single_file import remember_singles
from reprobuild.image.model import Image
from reprobuild.lock.file import write_lock
from reprobuild.lock.system import EnvVar
from reprobuild.run.options import RunOptions
from reprobuild.run.pyxis import _sha256
from reprobuild.run.slurm import own_command, words_of
from reprobuild.store.keyring import keyring
from reprobuild.store.store import Store
from tests.choices.samples import save_choices
from tests.conftest import ROOT, reprobuild
from tests.verify.samples import make_lock

SQUASHFS = b"hsqs and so on"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SRUN = """#!{python}
import json, os, sys
if sys.argv[1:] == ["--help"]:
    print("{help}")
else:
    json.dump({{"words": sys.argv[1:], "env": dict(os.environ)}}, open("{said}", "w"))
    sys.exit(3)
"""


def plant_srun(folder: Path, helped: str) -> None:
    (folder / "bin").mkdir()
    text = SRUN.format(python=sys.executable, help=helped, said=folder / "said.json")
    (folder / "bin" / "srun").write_text(text)
    (folder / "bin" / "srun").chmod(0o755)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output directory that says to hold a squashfs."""
    lock = make_lock(environment=(EnvVar(name="OMP_NUM_THREADS", value="4"),))
    folder = tmp_path / "out"
    folder.mkdir()
    write_lock(lock, folder / "reprobuild.lock")
    image = Image(
        layout="image", reference="reprobuild:test", layers=1,
        tree=f"sha256:{'1' * 64}", config=f"sha256:{'2' * 64}", manifest=f"sha256:{'3' * 64}",
        lock=lock.digest, sqsh=f"sha256:{hashlib.sha256(SQUASHFS).hexdigest()}",
    )  # fmt: skip
    (folder / "image.json").write_bytes(msgspec.json.encode(image))
    (folder / "image.sqsh").write_bytes(SQUASHFS)
    remember_singles(image, user_store(tmp_path))
    return folder


def user_store(folder: Path) -> Store:
    """Return the store of the user of `srun`."""
    return Store(folder / "cache" / "reprobuild")


def srun(out: Path, *words: str, code: int = 3, pyxis: bool = True, **env: str) -> dict[str, Any]:
    """Run with an srun that has pyxis or not; return what it was given and what was said."""
    if not (out.parent / "bin").exists():
        plant_srun(out.parent, "--container-image=PATH [pyxis]" if pyxis else "usage: srun")
    path = f"{out.parent / 'bin'}:{os.environ['PATH']}"
    cache = str(out.parent / "cache")
    done = reprobuild("run", out, *words, env={**os.environ, "XDG_CACHE_HOME": cache, **env, "PATH": path})
    assert done.returncode == code, done.stderr
    said = out.parent / "said.json"
    return {"stderr": done.stderr, **(json.loads(said.read_text()) if said.exists() else {})}


def test_choices_of_compilers_are_for_ranks_that_run_themselves(out: Path) -> None:
    for options in (["--save-choices"], ["--choices", "strict"]):
        found = srun(out, "--srun-args", "-N 2", *options, "--", "python", code=125)
        assert (
            "error: pyxis starts the containers, so that no choices of compilers are saved or used"
            in found["stderr"]
        )
        hint = f"hint: let each rank run itself: srun reprobuild run {out} --save-choices -- CMD"
        assert hint in found["stderr"]
    save_choices(out)
    found = srun(out, "--srun-args", "-N 2", "--", "python")
    assert "the saved choices are not used: pyxis starts the containers" in found["stderr"]
    assert "pyxis" not in srun(out, "--srun-args", "-N 2", "--choices", "off", "--", "python")["stderr"]


def test_pyxis(out: Path) -> None:
    found = srun(
        out, "--srun-args", "-N 2 --job-name 'a b'", "--seed", "7", "-v", "/data:/data:ro", "-v", "/runs:/runs",
        "--secret", "HF_TOKEN", "--env", "OMP_NUM_THREADS=8", "--gpu", "none", "--", "python", "train.py", "a b",
        HF_TOKEN=TOKEN, NCCL_SOCKET_IFNAME="ib0", SLURM_JOB_ID="5",
    )  # fmt: skip
    words = found["words"]
    assert words[:6] == [
        "-N", "2", "--job-name", "a b", f"--container-image={out / 'image.sqsh'}", "--no-container-mount-home",
    ]  # fmt: skip
    assert "--no-container-entrypoint" in words
    assert "--container-workdir=/src" in words
    assert "--container-mounts=/data:/data:ro,/runs:/runs" in words
    # The image's own value comes first with pyxis, so what takes its place is named.
    assert "--container-env=OMP_NUM_THREADS" in words
    names = (
        "HF_TOKEN,NCCL_SOCKET_IFNAME,NVIDIA_VISIBLE_DEVICES,OMP_NUM_THREADS,REPROBUILD_RECORD,REPROBUILD_SEED"
    )
    assert f"--export={names}" in words
    after = words[words.index("--") + 1 :]
    assert after[1:3] == ["-I", "-S"]
    assert after[3].endswith("reprobuild_runtime/entrypoint.py")
    assert after[4:] == ["python", "train.py", "a b"]
    assert TOKEN not in " ".join(words) + found["stderr"]
    given = ("HF_TOKEN", "REPROBUILD_SEED", "OMP_NUM_THREADS", "SLURM_JOB_ID")
    assert [found["env"][name] for name in given] == [TOKEN, "7", "8", "5"]
    assert "OMP_NUM_THREADS: the given value is used, and not the frozen one (4)" in found["stderr"]


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        (("--shm-size", "1g"), "pyxis cannot be told --shm-size: it runs as", "leave it out, or choose --engine"),
        (("--ulimit", "core=0"), "pyxis cannot be told --ulimit", "leave it out, or choose --engine apptainer"),
        (("-v", "/a,b:/c"), "pyxis cannot be told the directory /a,b",
            "mount it by a link with another name, or choose --engine apptainer"),
        (("--gpu", "nvidia.com/gpu=0"), "pyxis knows no GPU by a name of CDI: nvidia.com/gpu=0",
            "name it by its index or UUID, or give all with --gpu all"),
        (("--env", f"LD_OWN={TOKEN}"), "pyxis cannot be given LD_OWN out of sight: srun itself would look at it",
            "give it another name, or choose --engine apptainer"),
    ],
)  # fmt: skip
def test_what_pyxis_cannot_be_told(words: tuple[str, ...], what: str, hint: str, out: Path) -> None:
    said = srun(out, "--srun-args", "", *words, "--", "true", code=125)["stderr"]
    assert f"error: {what}" in said
    assert f"hint: {hint}" in said
    assert TOKEN not in said


def test_a_variable_of_the_site_that_pyxis_cannot_be_told(out: Path) -> None:
    said = srun(out, "--srun-args", "", "--", "true", code=125, **{"SLURM_A B": "c"})["stderr"]
    assert "error: pyxis cannot be told the variable 'SLURM_A B'" in said
    assert "hint: give it a name of letters, digits and _" in said


@pytest.mark.parametrize(
    "option", ["--export=ALL", "--expo=ALL", "--container-name=x", "--no-container-mount-home"]
)
def test_an_option_that_run_says_itself(option: str, out: Path) -> None:
    said = srun(out, "--srun-args", f"-N 2 {option}", "--", "true", code=125)["stderr"]
    assert f"error: --srun-args {option}: with pyxis, `run` says this itself" in said
    hint = "leave it out; --env and --secret hand variables on, -v directories; or choose --engine apptainer"
    assert f"hint: {hint}" in said
    assert not (out.parent / "said.json").exists()


def test_options_that_begin_alike_are_handed_on(out: Path) -> None:
    words = srun(out, "--srun-args", "--exclusive --exclude=n1 --container-writable", "--", "true")["words"]
    assert words[:3] == ["--exclusive", "--exclude=n1", "--container-writable"]


def test_what_srun_itself_would_look_at_is_set_in_the_container(out: Path) -> None:
    found = srun(
        out, "--srun-args", "", "--env", "PATH=/mine/bin", "--env", "LD_PRELOAD=/mine.so",
        "--env", "SLURM_CPU_BIND=none", "--env", "ENROOT_DATA_PATH=/e", "--env", "A=b", "--gpu", "none", "--", "true",
        SLURM_JOB_ID="5",
    )  # fmt: skip
    words, env = found["words"], found["env"]
    after = words[words.index("--") + 1 :]
    assert after[:5] == [
        "/usr/bin/env", "ENROOT_DATA_PATH=/e", "LD_PRELOAD=/mine.so", "PATH=/mine/bin", "SLURM_CPU_BIND=none",
    ]  # fmt: skip
    assert after[6:8] == ["-I", "-S"]
    assert "--export=A,NVIDIA_VISIBLE_DEVICES" in words
    assert env["PATH"].startswith(f"{out.parent / 'bin'}:")
    assert {"LD_PRELOAD", "SLURM_CPU_BIND", "ENROOT_DATA_PATH"}.isdisjoint(env)
    assert (env["A"], env["SLURM_JOB_ID"]) == ("b", "5")


VISIBLE, CAPABILITIES = "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"
UNKNOWN = "--gpu auto: nothing here says that the job has GPUs, so none is asked for"


def of_gpus(found: dict[str, Any]) -> dict[str, str]:
    """Return what srun hands on of GPUs: the variables that `--export` names, with their values."""
    (exported,) = (word for word in found["words"] if word.startswith("--export="))
    names = exported.removeprefix("--export=").split(",")
    return {name: found["env"][name] for name in names if name.startswith(("NVIDIA_", "CUDA_"))}


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("all", {VISIBLE: "all", CAPABILITIES: "compute,utility", "CUDA_VISIBLE_DEVICES": "3"}),
        ("0,2", {VISIBLE: "0,2", CAPABILITIES: "compute,utility"}),
        ("GPU-6ab8", {VISIBLE: "GPU-6ab8", CAPABILITIES: "compute,utility"}),
        ("none", {VISIBLE: "void"}),
    ],
)  # fmt: skip
def test_the_gpus_that_enroot_mounts(option: str, told: dict[str, str], out: Path) -> None:
    found = srun(out, "--srun-args", "", "--gpu", option, "--", "true", CUDA_VISIBLE_DEVICES="3")
    assert of_gpus(found) == told
    outside = "CUDA_VISIBLE_DEVICES: stays outside; the GPUs are those that --gpu names"
    assert (outside in found["stderr"]) == (option != "all")
    after = found["words"][found["words"].index("--") + 1 :]
    # Slurm's numbers are those of the node, and a container counts those that it was given.
    assert (after[:3] == ["/usr/bin/env", "-u", "CUDA_VISIBLE_DEVICES"]) == (option in ("0,2", "GPU-6ab8"))


@pytest.mark.parametrize(
    ("options", "env", "there"),
    [
        ("-N 2 --gpus-per-node=4", {}, True), ("--gres gpu:2", {}, True), ("--gres=shard:1,gpu:a100:2", {}, True),
        ("-G 8", {}, True), ("--tres-per-task=gres/gpu:1", {}, True), ("-N 2", {"SLURM_GPUS_ON_NODE": "4"}, True),
        ("-N 2", {"SLURM_JOB_GPUS": "0,1"}, True), ("-N 2", {"SLURM_GPUS_ON_NODE": "0"}, False),
        ("-N 2 --job-name gpuless --gres=shard:1", {}, False),
    ],
)  # fmt: skip
def test_whether_the_job_has_gpus_and_not_this_machine(
    options: str, env: dict[str, str], there: bool, out: Path
) -> None:
    found = srun(out, "--srun-args", options, "--", "true", **env)
    there = there or gpu.has_any_gpu()
    assert of_gpus(found) == ({VISIBLE: "all", CAPABILITIES: "compute,utility"} if there else {})
    assert (UNKNOWN in found["stderr"]) == (not there)


def test_what_the_user_or_the_image_says_of_gpus_is_kept(out: Path) -> None:
    lock = make_lock(environment=(EnvVar(name=VISIBLE, value="all"), EnvVar(name=CAPABILITIES, value="all")))
    write_lock(lock, out / "reprobuild.lock")
    image = json.loads((out / "image.json").read_bytes())
    (out / "image.json").write_text(json.dumps({**image, "lock": lock.digest}))
    found = srun(out, "--srun-args", "", "--gpu", "1", "--env", "CUDA_VISIBLE_DEVICES=0", "--", "true")
    assert of_gpus(found) == {VISIBLE: "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert f"--container-env={VISIBLE}" in found["words"]
    assert "-u" not in found["words"]
    found = srun(out, "--srun-args", "", "--gpu", "1", "--env", f"{VISIBLE}=5", "--", "true")
    assert of_gpus(found) == {VISIBLE: "5"}


def test_another_squashfs_is_not_started(out: Path) -> None:
    """Also after the right one was seen and remembered, and where size and time of writing are the same."""
    srun(out, "--srun-args", "", "--", "true")
    squashfs = out / "image.sqsh"
    before = squashfs.stat()
    (out.parent / "said.json").unlink()
    squashfs.write_bytes(SQUASHFS.replace(b"so", b"SO"))
    os.utime(squashfs, ns=(before.st_atime_ns, before.st_mtime_ns))
    said = srun(out, "--srun-args", "", "--", "true", code=125)["stderr"]
    assert f"error: {squashfs} is not the one of this image: it is sha256:" in said
    assert f"hint: write it: reprobuild build {out / 'reprobuild.lock'} -o {out} --format squashfs" in said
    assert not (out.parent / "said.json").exists()


def test_a_squashfs_of_another_party_is_not_started(out: Path) -> None:
    """Found by an attacker: honest layers, any file in image.sqsh, and its hash in image.json."""
    evil = b"hsqs EVIL"
    stated = json.loads((out / "image.json").read_bytes())
    own, stated["sqsh"] = stated["sqsh"], f"sha256:{hashlib.sha256(evil).hexdigest()}"
    (out / "image.json").write_text(json.dumps(stated))
    (out / "image.sqsh").write_bytes(evil)
    said = srun(out, "--srun-args", "-N 2", "--", "python", code=125)["stderr"]
    assert f"error: {out / 'image.sqsh'} is not known to be of this image: " in said
    assert (
        f"hint: write it: reprobuild build {out / 'reprobuild.lock'} -o {out} --format squashfs; or choose "
        "--engine apptainer; if another user of a shared store wrote it, join that store: reprobuild store join DIR\n"
        in said
    )
    assert not (out.parent / "said.json").exists()
    (out / "image.json").write_text(json.dumps({**stated, "sqsh": own}))
    (out / "image.sqsh").write_bytes(SQUASHFS)  # as that command does
    srun(out, "--srun-args", "-N 2", "--", "python")


def test_a_squashfs_of_another_user_of_a_joined_store_is_started(out: Path) -> None:
    """One directory on a shared disk: its writer and its reader have their own keys, and one store."""
    shared, other = out.parent / "shared", str(out.parent / "data of another user")
    lab = Store(shared, keyring({"XDG_DATA_HOME": str(out.parent / "data of the writer")}))
    remember_singles(msgspec.json.decode((out / "image.json").read_bytes(), type=Image), lab)
    words, env = (
        ("--srun-args", "-N 2", "--", "python"),
        {"XDG_DATA_HOME": other, "REPROBUILD_STORE": str(shared)},
    )
    joined = reprobuild("store", "join", shared, env={**os.environ, **env})
    assert joined.returncode == 0, joined.stderr
    srun(out, *words, **env)


def test_a_squashfs_is_read_once(tmp_path: Path) -> None:
    squashfs, store = tmp_path / "image.sqsh", Store(tmp_path / "store")
    squashfs.write_bytes(SQUASHFS)
    digest = hashlib.sha256(SQUASHFS).hexdigest()
    assert _sha256(squashfs, store) == digest
    (kept,) = (tmp_path / "store" / "made").iterdir()
    assert store.recall(kept.name) == digest
    store.remember(kept.name, "remembered")
    assert _sha256(squashfs, store) == "remembered"
    squashfs.write_bytes(b"another, longer one")
    assert _sha256(squashfs, store) == hashlib.sha256(b"another, longer one").hexdigest()


def test_no_squashfs(out: Path) -> None:
    (out / "image.sqsh").unlink()
    said = srun(out, "--srun-args", "", "--", "true", code=125)["stderr"]
    assert f"error: pyxis starts {out / 'image.sqsh'}, which is not there" in said
    assert (
        f"hint: write it: reprobuild build {out / 'reprobuild.lock'} -o {out} --format squashfs; or choose "
        "--engine apptainer" in said
    )


def test_options_that_cannot_be_read(out: Path) -> None:
    said = srun(out, "--srun-args", "-N '2", "--", "true", code=125)["stderr"]
    assert "hint: quote it as for a shell: --srun-args '-N 2 --exclusive'" in said


def test_no_srun(out: Path) -> None:
    done = reprobuild("run", out, "--srun-args", "", "--", "true", env={**os.environ, "PATH": "/nonexistent"})
    assert done.returncode == 125
    assert "hint: run this where `srun` is, on a login node or in a job" in done.stderr


@pytest.mark.parametrize("words", [(), ("--engine", "apptainer")])
def test_without_pyxis_each_rank_runs_itself(words: tuple[str, ...], out: Path) -> None:
    found = srun(
        out,
        "--srun-args",
        "-n 3",
        *words,
        "--secret",
        "HF_TOKEN",
        "--",
        "id",
        pyxis=bool(words),
        HF_TOKEN=TOKEN,
    )
    assert found["words"][:5] == ["-n", "3", "--", sys.executable, "-I"]  # tests/starts has what follows
    expected = ["run", str(out), *words, "--gpu", "auto", "--secret", "HF_TOKEN", "--", "id"]
    assert found["words"][-len(expected) :] == expected
    assert "reprobuild.cli" in " ".join(found["words"][5 : -len(expected)])
    assert found["env"]["HF_TOKEN"] == TOKEN


def test_a_rank_finds_the_folders_that_are_meant_here(out: Path) -> None:
    """srun may start it elsewhere."""
    found = srun(
        out,
        "--srun-args",
        "-D /else",
        "-v",
        "data:/data:ro",
        "-v",
        "/runs:/runs",
        "--engine",
        "apptainer",
        "--",
        "id",
    )
    volumes = [word for word in found["words"] if word.endswith((":/data:ro", ":/runs"))]
    assert volumes == [f"{ROOT}/data:/data:ro", "/runs:/runs"]


def test_the_words_of_a_rank_say_all_that_was_asked() -> None:
    wanted = RunOptions(
        seed=0, variables=("A=b",), hidden=("T",), volumes=("/a:/b:ro",), workdir="/w", user="1:2", shm_size="8g",
        limits=("core=0",), network="host", engine="podman", gpus="none",
        profile="strict", choices="strict", save_choices=True, trusted_choices=("ab",),
    )  # fmt: skip
    assert " ".join(words_of(wanted)) == (
        "--seed 0 --workdir /w --user 1:2 --shm-size 8g --network host --engine podman --gpu none "
        "--profile strict --choices strict --env A=b --secret T --volume /a:/b:ro --ulimit core=0 --trust-choices ab "
        "--save-choices"
    )
    assert own_command(Path("/o"), ["x"], RunOptions(), [])[-3:] == ["auto", "--", "x"]
