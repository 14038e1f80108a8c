"""What reads snapshots today reads those of the capture, and from an editable install it makes the very files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from reprobuild.infra.git.addresses import read_origin
from reprobuild.resolve.sources.trees import SourceInputs, resolve_sources
from reprobuild.resolve.system.release import infer_release
from reprobuild.snapshot.parsers import env as environ
from reprobuild.snapshot.parsers import modules
from reprobuild.snapshot.parsers.capture_json import load_capture
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from reprobuild_runtime import capture
from tests.capture.repositories import (
    BASE,
    ENV,
    LEAN,
    PROJECT,
    built,
    document,
    git,
    new_origin,
    run_program,
    write,
)
from tests.conftest import reprobuild


def context(variables: Mapping[str, str]) -> capture.Context:
    found = dict(variables)
    return capture.Context(found, 1e12, "", program=False, secrets=capture._known_secrets(found))


# --- the environment ---------------------------------------------------------------------------

NAMES = st.one_of(
    st.sampled_from(
        ["PATH", "LD_PRELOAD", "http_proxy", "A", "_", "x", "MiXeD_1", "PS1", "JSON", "abc1DEFabc1DEFabc1"]
    ),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True),
)
ODD = [
    "", "=", "==", "{", "{a\nb}", "[1,\n2]", "(x", '"open', "'", "\\", "a\\\nb", "ends...", "() { echo", " leading",
    "-----BEGIN X-----\nabc=\n-----END X-----", "trailing ", "a\tb", "line\r", "# not a comment", "$ ls", "\x1b[31m",
    "export A=b",
]  # fmt: skip
VALUES = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.sampled_from(ODD)
)


@given(st.dictionaries(NAMES, VALUES, max_size=12))
def test_every_variable_is_read_as_it_was(variables: dict[str, str]) -> None:
    taken = capture.take_environment(context(variables))
    found, remarks = environ.parse(taken.texts["env.txt"], "env.txt")
    read = {variable.name: variable for variable in found}
    kept = {}
    for name, value in variables.items():
        if capture.secret_variable(name, value):
            assert name not in read or read[name].value is None
        else:
            kept[name] = value
            assert read[name].value == value
    assert set(read) <= set(variables)
    assert all(remark.text.startswith("# withheld: ") for remark in remarks if remark.text)
    exact = [row.partition(b"=") for row in taken.texts["env.nul"].split(b"\0")[:-1]]
    assert {name.decode(): value.decode() for name, _, value in exact} == kept


def test_no_value_is_suspect_for_the_way_it_is_written() -> None:
    variables = {f"lower_{number}": value for number, value in enumerate(ODD)} | {
        "PATH": "/bin",
        "TEXT": '"a {',
    }
    found, _ = environ.parse(capture.take_environment(context(variables)).texts["env.txt"], "env.txt")
    assert len(found) == len(variables)
    assert [variable.suspect for variable in found if variable.suspect] == []


def test_names_that_no_shell_has_are_in_the_exact_file(tmp_path: Path) -> None:
    odd = {"BASH_FUNC_module%%": "() {  eval ls\n}", "a.b": "1", "x y": "2", "GOOD": "3"}
    taken = capture.take_environment(context(odd))
    assert taken.texts["env.txt"].decode().split("\n")[:-1] == [
        "# only in env.nul: x y",
        "# only in env.nul: a.b",
        "GOOD=3",
        "# only in env.nul: BASH_FUNC_module%%",
    ]
    assert taken.facts["only_in_env_nul"] == ["BASH_FUNC_module%%", "a.b", "x y"]
    assert taken.texts["env.nul"].count(b"\0") == 4


def test_bytes_that_are_no_text_are_exact_in_env_nul(tmp_path: Path) -> None:
    env = {os.fsencode(name): os.fsencode(value) for name, value in LEAN.items()} | {b"LATIN": b"caf\xe9"}
    argv = [BASE, str(capture.__file__), "-o", str(tmp_path / "out")]
    subprocess.run(argv, env=env, check=True, capture_output=True)
    assert b"LATIN=caf\xe9\0" in (tmp_path / "out" / "env.nul").read_bytes()
    known = {variable.name for variable in read_snapshot(tmp_path / "out").variables}
    assert "LATIN" in known


@pytest.mark.parametrize("locale", [{}, {"LC_ALL": "C"}, {"LC_CTYPE": "C.UTF-8"}])
def test_what_python_adds_in_the_c_locale_is_not_captured(locale: dict[str, str], tmp_path: Path) -> None:
    env = {"PATH": LEAN["PATH"], **locale}
    assert run_program("-o", tmp_path / "out", env=env).returncode == 0
    exact = (tmp_path / "out" / "env.nul").read_bytes()
    assert (b"LC_CTYPE=" in exact) == ("LC_CTYPE" in locale)


# --- packages, modules, distributions ----------------------------------------------------------


def test_the_packages_are_those_of_dpkg(tmp_path: Path) -> None:
    assert run_program("-o", tmp_path / "out", env=ENV).returncode == 0
    snapshot = read_snapshot(tmp_path / "out")
    shown = ["dpkg-query", "-W", "-f=${db:Status-Status} ${Package} ${Version} ${Architecture}\n"]
    rows = subprocess.run(shown, capture_output=True, text=True, check=True).stdout.split("\n")
    wanted = {tuple(row.split()[1:]) for row in rows if row.startswith("installed ")}
    assert {(p.name, p.version, p.architecture) for p in snapshot.packages} == wanted
    automatic = subprocess.run(
        ["apt-mark", "showauto"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {p.name for p in snapshot.packages if p.mark == "automatic"} == {
        name.partition(":")[0] for name in automatic
    }
    assert infer_release(snapshot.packages).distribution in ("debian", "ubuntu")


@pytest.mark.parametrize(
    "names", [[], ["gcc/12.2.0"], ["gcc/12.2.0", "cuda/12.4", "openmpi/4.1/intel", "2020"]]
)
def test_the_modules_are_read(names: list[str]) -> None:
    taken = capture.take_modules(context({"LOADEDMODULES": ":".join(names), "_LMFILES_": "/m/a.lua"}))
    found, remarks = modules.parse(taken.texts["modules.txt"])
    assert [m.name + (f"/{m.version}" if m.version else "") for m in found] == names
    assert all(remark.understood for remark in remarks)


def test_no_modules_is_no_file() -> None:
    with pytest.raises(capture.GaveUpError) as caught:
        capture.take_modules(context({}))
    assert caught.value.reason == "not-there"


def test_the_freeze_is_that_of_pip(tmp_path: Path) -> None:
    """Without the editable install of this checkout, for which pip names a commit that no remote has."""
    argv = [sys.executable, str(capture.__file__), "-o", str(tmp_path / "out")]
    subprocess.run(argv, env=LEAN, cwd=tmp_path, check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "freeze", "--exclude-editable", "--disable-pip-version-check"]
    wanted = subprocess.run(
        pip, env=ENV, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    mine = (tmp_path / "out" / "requirements.txt").read_text().split("\n")
    plain = {line for line in mine if line and not line.startswith(("-e", "#"))}
    assert len(plain) > 20
    assert {_canonical(line) for line in plain} == {
        _canonical(line) for line in wanted if line and line[0] != "#"
    }


def _canonical(line: str) -> str:
    asked = Requirement(line)
    return f"{canonicalize_name(asked.name)} {asked.specifier} {asked.url}"


# --- an editable install, from the machine to the sources of a lock ------------------------------


def install(site: Path, name: str, project: Path) -> None:
    built(project, name)
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (folder / "INSTALLER").write_text("pip\n")
    (folder / "direct_url.json").write_text(
        json.dumps({"url": project.as_uri(), "dir_info": {"editable": True}})
    )


def dirty(top: Path) -> None:
    """Leave work in every state that git knows."""
    write(top, "kept.py", b"pushed nowhere\n")
    git(top, "commit", "-qam", "unpushed")
    write(top, "kept.py", b"staged\n")
    write(top, "staged.bin", bytes(range(256)))
    git(top, "add", "-A")
    write(top, "kept.py", b"in the work tree\n")
    write(top, "untracked/näme", b"untracked\n")
    (top / "link").symlink_to("kept.py")
    (top / "run.sh").chmod(0o755)
    (top / "dir" / "inner.py").unlink()


def captured(folder: Path, top: Path, project: Path, name: str = "my_lib", cwd: Path | None = None) -> Path:
    install(folder / "site", name, project)
    done = run_program(
        "-o", folder / "out", env=LEAN | {"PYTHONPATH": str(folder / "site")}, cwd=cwd or folder
    )
    assert done.returncode == 0, done.stderr
    return folder / "out"


def test_an_editable_install_becomes_the_very_files(tmp_path: Path) -> None:
    top = new_origin(tmp_path, project=True)
    dirty(top)
    out = captured(tmp_path, top, top)
    snapshot = read_snapshot(out)
    (line,) = (line for line in snapshot.requirements if line.name == "my_lib")
    assert line.kind == "editable"
    store = Store(tmp_path / "store")
    origins = {"my-lib": read_origin(str(tmp_path / "origin.git"), tmp_path)}
    given = SourceInputs(patches=snapshot.patches, origins=origins, store=store, env=dict(os.environ))
    (source,), rulings = resolve_sources((line,), given)
    (repository,) = load_capture(out).repositories
    assert source.tree == repository.worktree
    assert source.commit == repository.base != repository.head
    assert [ruling.outcome for ruling in rulings] == ["pinned", "pinned"]


def stray(folder: Path, version: str = "0.9") -> None:
    """Leave what `setup.py egg_info` leaves in a source tree."""
    write(
        folder,
        "my_lib.egg-info/PKG-INFO",
        f"Metadata-Version: 1.0\nName: my-lib\nVersion: {version}\n".encode(),
    )


@pytest.mark.parametrize("inside", [".", "src"])
def test_a_stray_egg_info_does_not_hide_the_editable_install(inside: str, tmp_path: Path) -> None:
    top = new_origin(tmp_path, project=True)
    write(top, "kept.py", b"changed\n")
    stray(top / inside)
    install(tmp_path / "site", "my_lib", top)
    path = f"{top / inside}:{tmp_path / 'site'}"
    done = run_program("-o", tmp_path / "out", env=LEAN | {"PYTHONPATH": path}, cwd=tmp_path)
    lines = (tmp_path / "out" / "requirements.txt").read_text()
    head = git(top, "rev-parse", "HEAD").decode().strip()
    assert f"-e git+file://{tmp_path}/origin.git@{head}#egg=my_lib\n" in lines
    assert "my-lib==" not in lines
    assert b"+changed" in (tmp_path / "out" / "my_lib.diff").read_bytes()
    assert document(tmp_path / "out")["distributions"]["unclear"] == []
    assert "first on the path" not in done.stderr


def test_a_stray_egg_info_does_not_hide_an_old_editable_install(tmp_path: Path) -> None:
    """`setup.py develop` left a link to the tree, and the tree is first on the path."""
    top = new_origin(tmp_path, project=True)
    stray(top)
    write(tmp_path / "site", "my-lib.egg-link", f"{top}\n.".encode())
    path = f"{top}:{tmp_path / 'site'}"
    run_program("-o", tmp_path / "out", env=LEAN | {"PYTHONPATH": path}, cwd=tmp_path)
    lines = (tmp_path / "out" / "requirements.txt").read_text()
    assert "#egg=my_lib\n" in lines
    assert "my-lib==" not in lines


def test_an_egg_info_of_another_tree_is_unclear(tmp_path: Path) -> None:
    top = new_origin(tmp_path, project=True)
    stray(tmp_path / "other")
    install(tmp_path / "site", "my_lib", top)
    path = f"{tmp_path / 'other'}:{tmp_path / 'site'}"
    done = run_program("-o", tmp_path / "out", env=LEAN | {"PYTHONPATH": path}, cwd=tmp_path)
    assert "my-lib==0.9\n" in (tmp_path / "out" / "requirements.txt").read_text()
    (found,) = document(tmp_path / "out")["distributions"]["unclear"]
    assert (found["first"], found["installed"]["origin"]["path"]) == (str(tmp_path / "other"), str(top))
    assert f"{tmp_path / 'site'} has it installed from another place (-e {top})\n" in done.stderr
    shown = reprobuild("show", tmp_path / "out")
    assert "note          my_lib: the freeze says what" in shown.stdout


def test_an_editable_folder_that_git_ignores_is_in_no_commit(tmp_path: Path) -> None:
    """A repository of dotfiles in the home directory, which ignores all that was not added by force."""
    home = new_origin(tmp_path, {".bashrc": b"x\n"})
    write(home, ".gitignore", b"*\n")
    project = home / "work" / "my lib"
    write(project, "my_lib.py", b"x = 1\n")
    write(project, PROJECT, b"")
    kept = home / "kept"
    write(kept, "lib.py", b"x = 1\n")
    write(kept, PROJECT, b"")
    git(home, "add", "-f", ".gitignore", "kept/lib.py", f"kept/{PROJECT}")
    git(home, "commit", "-qm", "kept")
    git(home, "push", "-q")
    install(tmp_path / "site", "my_kept", kept)
    out = captured(tmp_path, home, project)
    lines = (out / "requirements.txt").read_text()
    assert f"# Editable install with no version control (my_lib==1.0)\n-e {project}\n" in lines
    assert "#egg=my_kept&subdirectory=kept\n" in lines
    assert [one["distributions"] for one in document(out)["repositories"]] == [["my_kept"]]


def test_an_editable_install_from_a_folder_of_its_repository(tmp_path: Path) -> None:
    top = new_origin(tmp_path, project=True)
    dirty(top)
    write(top, "packages/lib/pyproject.toml", b"[project]\n")
    snapshot = read_snapshot(captured(tmp_path, top, top / "packages" / "lib"))
    (line,) = (line for line in snapshot.requirements if line.name == "my_lib")
    assert line.subdirectory == "packages/lib"
    assert [patch.name for patch in snapshot.patches] == ["my_lib"]


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("git@git.example:a/b.git", "git+ssh://git@git.example/a/b.git"),
        ("https://git.example/a/b.git", "git+https://git.example/a/b.git"),
        ("https://ada:pw4nobody@git.example/a/b.git", "git+https://git.example/a/b.git"),
        ("ssh://git@git.example/a", "git+ssh://git@git.example/a"),
    ],
)
def test_addresses_of_remotes_are_written_as_pip_does(url: str, line: str, tmp_path: Path) -> None:
    top = new_origin(tmp_path, project=True)
    git(top, "remote", "set-url", "origin", url)
    text = (captured(tmp_path, top, top) / "requirements.txt").read_text()
    head = git(top, "rev-parse", "HEAD").decode().strip()
    assert f"-e {line}@{head}#egg=my_lib\n" in text


@pytest.mark.parametrize("kind", ["alone", "unborn", "plain"])
def test_without_a_remote_the_reader_asks_for_the_source(kind: str, tmp_path: Path) -> None:
    top = new_origin(tmp_path, project=True)
    if kind == "alone":
        git(top, "remote", "remove", "origin")
    else:
        top = tmp_path / kind
        top.mkdir()
        write(top, PROJECT, b"a\n")
    if kind == "unborn":
        git(top, "init", "-q", ".")
    out = captured(tmp_path, top, top)
    (line,) = (line for line in read_snapshot(out).requirements if line.name == "my_lib")
    assert (line.kind, line.version, line.path, line.commit) == ("editable", "1.0", str(top), None)
    assert len(document(out)["repositories"]) == (kind != "plain")


def test_changes_that_do_not_fit_into_a_diff_are_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A freeze with the commit and without the diff would build something else, and say nothing."""
    entry = {"name": "my_lib", "version": "1.0", "origin": {"path": "/src/lib"}}
    record = {
        "remotes": [{"name": "origin", "url": "https://git.example/x"}],
        "base_remote": "origin",
        "head": "1" * 40,
    }
    record["diff"] = {"reason": "too-large", "from": "1" * 40}
    line = capture._editable_line(entry, "/src/lib", record)
    assert line == "# Editable install whose changes are not in a diff (my_lib==1.0)\n-e /src/lib"


def test_a_repository_that_could_not_be_captured_is_not_passed_over(tmp_path: Path) -> None:
    top = new_origin(tmp_path, project=True)
    (top / ".git" / "index").write_bytes(b"damaged")
    out = captured(tmp_path, top, top)
    assert document(out)["parts"]["repository my_lib"]["outcome"] == "failed"
    text = (out / "requirements.txt").read_text()
    assert f"# Editable install whose repository was not captured (my_lib==1.0)\n-e {top}\n" in text
    (line,) = (line for line in read_snapshot(out).requirements if line.name == "my_lib")
    assert (line.commit, line.path) == (None, str(top))


def test_more_repositories_than_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        install(tmp_path / "site", f"lib{number}", new_origin(tmp_path / str(number), project=True))
    monkeypatch.setattr(capture, "REPOSITORIES", 2)
    monkeypatch.setattr(capture, "AT_ONCE", 1)
    monkeypatch.setattr(capture, "PARTS", (("distributions", capture.take_distributions),))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.chdir(tmp_path)
    found = capture.capture(str(tmp_path / "out"))
    assert found["parts"]["editable projects"] == "done"
    assert sorted(found["parts"].values()) == ["done", "done", "done", "done", "too-many"]
    text = (tmp_path / "out" / "requirements.txt").read_text()
    assert text.count("-e git+file://") == 2
    assert "# Editable install whose repository was not captured (lib2==1.0)\n" in text


def test_the_job_folder_is_no_source_of_the_image(tmp_path: Path) -> None:
    """Its changes are beside the others for people, under a name that no reader takes for an editable's diff."""
    top = new_origin(tmp_path, project=True)
    write(top, "kept.py", b"changed\n")
    job = tmp_path / "job"
    job.mkdir()
    inner = new_origin(job)
    write(inner, "kept.py", b"also changed\n")
    out = captured(tmp_path, top, top, cwd=inner)
    snapshot = read_snapshot(out)
    assert [patch.name for patch in snapshot.patches] == ["my_lib"]
    assert (out / "clone.patch").is_file()
    (said,) = (remark for remark in snapshot.remarks if remark.place.file == "clone.patch")
    assert said.reason == "the changes of a repository, for people: not read"
    assert [remark for remark in snapshot.remarks if not remark.understood] == []


def test_two_of_one_name_do_not_mix(tmp_path: Path) -> None:
    for number, folder in enumerate((tmp_path / "one", tmp_path / "two")):
        folder.mkdir()
        write(new_origin(folder, project=True), "kept.py", b"%d\n" % number)
        install(tmp_path / "site", f"lib{number}", folder / "clone")
        install(tmp_path / "site", f"more{number}", folder / "clone")
    env = LEAN | {"PYTHONPATH": str(tmp_path / "site")}
    assert run_program("-o", tmp_path / "out", env=env, cwd=tmp_path).returncode == 0
    names = [repository.name for repository in load_capture(tmp_path / "out").repositories]
    assert names == ["clone", "clone-2"]
    assert {path.name for path in (tmp_path / "out").glob("*.diff")} == {"clone.diff", "clone-2.diff"}


def test_a_relative_prefix_of_conda_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "env" / "conda-meta").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(capture.GaveUpError):
        capture.take_conda(context({"CONDA_PREFIX": "env"}))


def test_what_conda_installed_is_listed_with_its_hashes(tmp_path: Path) -> None:
    folder = tmp_path / "env" / "conda-meta"
    folder.mkdir(parents=True)
    for name in ("zlib", "abc"):
        said = {"name": name, "url": f"https://conda.example/main/{name}-1-0.conda", "md5": name * 8}
        (folder / f"{name}.json").write_text(json.dumps(said))
    (folder / "empty.json").write_text("")
    (folder / "list.json").write_text("[1]")
    taken = capture.take_conda(context({"CONDA_PREFIX": str(tmp_path / "env")}))
    rows = taken.texts["conda-explicit.txt"].decode().split("\n")
    assert rows[1:4] == [
        "@EXPLICIT",
        f"https://conda.example/main/abc-1-0.conda#{'abc' * 8}",
        f"https://conda.example/main/zlib-1-0.conda#{'zlib' * 8}",
    ]
    assert [(Path(one["location"]).name, one["why"]) for one in taken.facts["broken"]] == [
        ("empty.json", "JSONDecodeError"),
        ("list.json", "TypeError"),
    ]


def test_the_gpu_is_read_from_files_and_its_program(tmp_path: Path) -> None:
    cuda = tmp_path / "cuda"
    (cuda / "include").mkdir(parents=True)
    (cuda / "version.json").write_text('{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}')
    (cuda / "include" / "cudnn_version.h").write_text(
        "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n"
    )
    (cuda / "include" / "nccl.h").write_text(
        "#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n#define NCCL_PATCH 5\n"
    )
    fake = tmp_path / "bin" / "nvidia-smi"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho '0, NVIDIA H100, GPU-1, 550.54, 81559 MiB'\n")
    fake.chmod(0o755)
    found = context({"CUDA_HOME": str(cuda), "PATH": f"{fake.parent}:{ENV['PATH']}"})
    facts = capture.take_gpu(found._replace(scratch=str(tmp_path))).facts
    assert facts["headers"][str(cuda / "version.json")] == "12.4.1"
    assert facts["headers"][str(cuda / "include" / "cudnn_version.h")] == "9.1.0"
    assert facts["headers"][str(cuda / "include" / "nccl.h")] == "2.21.5"
    assert facts["nvidia_smi"] == ["0, NVIDIA H100, GPU-1, 550.54, 81559 MiB"]
    assert len(facts["nvidia_smi_fields"]) == 10
    fake.write_text('#!/bin/sh\ncase "$1" in *compute_cap*) exit 2;; esac\necho 0, NVIDIA V100\n')
    facts = capture.take_gpu(found._replace(scratch=str(tmp_path))).facts
    assert facts["nvidia_smi"] == ["0, NVIDIA V100"]
    assert facts["nvidia_smi_fields"][-1] == "memory.total"
    fake.write_text("#!/bin/sh\nexit 9\n")
    facts = capture.take_gpu(found._replace(scratch=str(tmp_path))).facts
    assert (facts["nvidia_smi"], facts["nvidia_smi_reason"]) == (None, "failed")


def test_the_scheduler_without_its_secrets() -> None:
    said = {
        "SLURM_JOB_ID": "42",
        "SLURM_JWT": "x" * 30,
        "PBS_JOBCOOKIE": "y" * 20,
        "KUBERNETES_PORT": "443",
        "HOME": "/",
    }
    facts = capture.take_scheduler(context(said)).facts
    assert facts["slurm"] == {"SLURM_JOB_ID": "42"}
    assert "pbs" not in facts
    assert facts["kubernetes"]["KUBERNETES_PORT"] == "443"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py", "--lr", "0.1"], ["train.py", "--lr", "0.1"]),
        (["--token", "abc"], ["--token", "***"]),
        (["--token=abc"], ["--token=***"]),
        (["--hf-token", "--lr", "1"], ["--hf-token", "--lr", "1"]),
        (["curl", "-u", "ada:secret"], ["curl", "-u", "***"]),
        (["X_API_KEY=abc", "run"], ["X_API_KEY=***", "run"]),
        (["https://u:longpass9@host.example/x"], ["https://host.example/x"]),
    ],
)
def test_command_lines(words: list[str], said: list[str]) -> None:
    assert [
        re.sub(r"\*\*\*.*", "***", word.replace("--token ***", "--token=***"))
        for word in capture.redact_arguments(words)
    ] == said
