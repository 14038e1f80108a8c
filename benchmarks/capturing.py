"""The time of `capture` against a Bash recipe.

People have the recipe in their job scripts; both run on one environment.

The environment has 300 distributions and five repositories of 1000 files each, with staged, unstaged and untracked
changes, from each of which a distribution is installed. The recipe has the lines of the chapter on reproducibility of
*Machine Learning Engineering*, unchanged: `module list`, `printenv | sort`, `pip freeze`, `git diff` in each directory
that a `direct_url.json` names, and `apt list --installed`. Ours takes more: every change, the staged state, the commits
that no remote has, and the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pip

from benchmarks.measure import ROOT, Figure, NotRunError, alternate, compare, time_process

DISTRIBUTIONS, REPOSITORIES, FILES = 300, 5, 1000
PAIRS = 7
LIMIT = 0.3
MODULES = ("reprobuild_runtime/capture",)
CAPTURE = ROOT / "reprobuild_runtime" / "capture.py"
RECIPE = r"""
module list 2> $REPRO_DIR/modules.txt
/usr/bin/printenv | sort > $REPRO_DIR/env.txt
pip freeze > $REPRO_DIR/requirements.txt
perl -nle 'm|"file://(.*?/([^/]+))"| && qx[cd $1; if [ ! -z "\$(git diff)" ]; then git diff > \$REPRO_DIR/$2.diff; fi]' $CONDA_PREFIX/lib/python*/site-packages/*.dist-info/direct_url.json
apt list --installed > $REPRO_DIR/apt-packages.txt
"""  # noqa: E501  # as the chapter prints it
_GIT = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@mail.example", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@mail.example", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
}  # fmt: skip


def make_environment(
    folder: Path, distributions: int = DISTRIBUTIONS, repositories: int = REPOSITORIES, files: int = FILES
) -> dict[str, str]:
    """Make the environment below a directory.

    Returns the variables with which a program is in it.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    shutil.copytree(Path(pip.__file__).parent, site / "pip")
    for number in range(distributions):
        _distribution(site, f"dist{number}")
    for number in range(repositories):
        top = folder / f"project{number}"
        _repository(top, files)
        record = {"url": top.as_uri(), "dir_info": {"editable": True}}
        info = _distribution(site, f"project{number}")
        (info / "direct_url.json").write_text(json.dumps(dict(reversed(record.items()))))
    python = folder / "bin" / "python"
    program = folder / "bin" / "pip"
    program.write_text(f"#!{python}\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    env = {**os.environ, **_GIT, "CONDA_PREFIX": str(folder), "PYTHON": str(python), "PATH": path}
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "PYTHONPATH"):
        env.pop(name, None)
    return env


def _distribution(site: Path, name: str) -> Path:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: click\n\n"
    (info / "METADATA").write_text(head + "Some words that describe the project.\n" * 300)
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text(f"{info.name}/METADATA,,\n{info.name}/INSTALLER,,\n{info.name}/RECORD,,\n")
    return info


def _repository(top: Path, files: int) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=top, env={**os.environ, **_GIT}, capture_output=True, check=True)

    top.mkdir()
    for number in range(files):
        path = top / f"part{number % 40:02}" / f"module{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"value_{line} = {number + line}\n" for line in range(300)))
    (top / "pyproject.toml").write_text(f'[project]\nname = "{top.name}"\nversion = "1.0"\n')
    git("init", "--quiet", "--initial-branch=main", ".")
    git("add", ".")
    git("commit", "--quiet", "--message=first")
    git("init", "--quiet", "--bare", f"{top}.git")
    git("remote", "add", "origin", f"{top}.git")
    git("push", "--quiet", "origin", "main")
    changed = sorted(top.glob("part*/*.py"))
    changed[0].write_text("value_0 = 1\n")
    changed[1].write_text("value_0 = 2\n")
    git("add", str(changed[1]))
    (top / "new.py").write_text("new = True\n")


def measure(
    distributions: int = DISTRIBUTIONS,
    repositories: int = REPOSITORIES,
    files: int = FILES,
    pairs: int = PAIRS,
) -> list[Figure]:
    """Return the figure of `capture` against the recipe.

    A capture that lacks a distribution or a repository is an error.

    Raises:
        NotRunError: apt or perl is missing here, and the recipe needs both.
    """
    missing = [name for name in ("apt", "perl") if shutil.which(name) is None]
    if missing:
        raise NotRunError(f"there is no {missing[0]} here")
    with tempfile.TemporaryDirectory(prefix="reprobuild-bench-") as scratch:
        place = Path(scratch)
        env = make_environment(place / "env", distributions, repositories, files)
        recipe, out = place / "recipe", place / "captured"
        (place / "recipe.sh").write_text(RECIPE)

        def theirs() -> Mapping[str, str]:
            shutil.rmtree(recipe, ignore_errors=True)
            recipe.mkdir()
            return {**env, "REPRO_DIR": str(recipe)}

        def ours() -> list[str]:
            shutil.rmtree(out, ignore_errors=True)
            return [env["PYTHON"], str(CAPTURE), "-o", str(out)]

        one, other = alternate(
            lambda: time_process(ours(), env, place),
            lambda: time_process(["bash", str(place / "recipe.sh")], theirs(), place),
            pairs,
        )
        _check(out, recipe, distributions, repositories)
    name = f"capture of {distributions} distributions and {repositories} repositories"
    return [compare(name, one, other, "the recipe in Bash", limit=LIMIT, modules=MODULES)]


def _check(out: Path, recipe: Path, distributions: int, repositories: int) -> None:
    """Check that both did the work."""
    captured = json.loads((out / "capture.json").read_bytes())
    for folder in (out, recipe):
        freeze = (folder / "requirements.txt").read_text()
        missing = [n for n in range(distributions) if f"dist{n}==1.0" not in freeze]
        if missing or len(list(folder.glob("project*.diff"))) != repositories:
            raise RuntimeError(f"{folder.name} lacks {len(missing)} distributions, or a repository")
    failed = {
        name: part for name, part in captured["parts"].items() if part["outcome"] not in ("done", "not-there")
    }
    if failed or len(captured["repositories"]) < repositories:
        raise RuntimeError(f"the capture is not whole: {failed}")
