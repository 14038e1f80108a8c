"""Each guide of docs/guides is run as it stands there, and every page of the tour; see `guides` for how."""

from __future__ import annotations

import grp
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.cluster.planted import PACKAGES, SLURM
from tests.conftest import EXAMPLE, ROOT, Built, another_user, reprobuild
from tests.e2e.guides import GuideError, here, run_guide
from tests.engines.conftest import daemon
from tests.openssh import openssh_client
from tests.squashfs import open_folder

GOOD = """\
# Title

```bash
NAME=you     # yours
mkdir new; cd new
echo "hello $NAME"; seq 9; echo to stderr >&2
```
```text
hello ...
1
...
9
to stderr
```

Then, in the same session:

```bash
test "$(basename $PWD)" = new
```

<!-- guide: file sub/words.txt -->
```yaml
a: file
```

<!-- guide: on other -->
```bash
cat sub/words.txt
```
```text
a: file
```
"""
MACHINES = {"here": here(os.environ), "other": here(os.environ, ("env",))}


def test_a_guide_is_run_as_it_stands(tmp_path: Path) -> None:
    ran = run_guide(GOOD, tmp_path, MACHINES, {"NAME": "a reader"})
    assert ran.outputs[0].startswith("hello a reader\n1\n")
    assert len(ran.outputs) == 3


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("hello ...\n1", "hello ...\n2", "^shown:"),
        ("to stderr\n```\n", "to stderr\nmore\n```\n", "^shown:"),
        ("= new", "= old", "^exit code 1 of:"),
        ("$NAME", "$UNSET", "^exit code [0-9]+ of:"),
        ("mkdir new; cd new", "mkdir new; cd new  # yours", "^the reader can choose a value alone"),
        ("     # yours", "", r"^the guide leaves \[\] to its reader, not \['NAME'\]"),
        ("Then, in", "```toml\n```\n\nThen, in", "^a block of 'toml' is neither run, nor compared, nor a file"),
        ("<!-- guide: on other -->\n", "<!-- guide: on other -->\nwords\n", "^a mark has no block"),
        ("guide: on other", "guide: skip other", "^there is no mark 'skip'"),
        ("Then, in", "    some code\n\nThen, in", "^a mark has no block, or a block is not fenced"),
        ("```text\na: file", "words\n```text\na: file", "^a block of 'text' is neither run"),
    ],
)  # fmt: skip
def test_a_guide_that_is_wrong(old: str, new: str, complaint: str, tmp_path: Path) -> None:
    assert old in GOOD
    with pytest.raises(GuideError, match=complaint):
        run_guide(GOOD.replace(old, new), tmp_path, MACHINES, {"NAME": "a reader"})


# --- the guides ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def env(built_example: Built, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a reader: `reprobuild` on PATH, the tests' store as the user's own."""
    cache = tmp_path_factory.mktemp("cache")
    (cache / "reprobuild").symlink_to(built_example.store)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REPROBUILD_")}
    return {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}


def test_the_tour(env: dict[str, str], tmp_path: Path) -> None:
    pages = sorted((ROOT / "docs" / "tour").glob("*.md"))
    assert [page.name[:2] for page in pages] == [f"{number}-" for number in range(1, 10)]
    text = "\n\n".join(page.read_text(encoding="utf-8") for page in pages)
    run_guide(text, tmp_path, {"here": here(env)}, {"EXAMPLE": EXAMPLE})


@pytest.mark.long
def test_on_a_laptop(env: dict[str, str], tmp_path: Path) -> None:
    command = "python train.py --steps 2 --out /results/out.ckpt"
    yours = {"SNAPSHOT": EXAMPLE / "snapshot", "DECISIONS": EXAMPLE / "reprobuild.yaml", "COMMAND": command}
    run_guide(guide("laptop"), tmp_path, {"here": here(env)}, yours)


@pytest.mark.long
def test_with_jupyter(built_example: Built, env: dict[str, str], tmp_path: Path) -> None:
    """The server is one that the example's environment has, on a daemon that publishes ports in its own network."""
    with daemon("ports", "--ports", share=True) as running:
        network = ("nsenter", "--net", "--target", running.process.pid, "--")
        host = {name: value for name, value in running.env.items() if name == "DOCKER_HOST"}
        yours = {"OUT": built_example.out, "SERVER": "python -m http.server 8888"}
        ran = run_guide(
            guide("jupyter"), tmp_path, {"here": here({**env, **host}, tuple(map(str, network)))}, yours
        )
    assert '"GET / HTTP/1.1" 200' in ran.outputs[1]
    assert "network: the engine's own, for -p; the command can reach other machines" in "".join(ran.outputs)


def guide(name: str) -> str:
    return (ROOT / "docs" / "guides" / f"{name}.md").read_text(encoding="utf-8")


# --- in CI -----------------------------------------------------------------------------------


@pytest.fixture
def python_with_pip(tmp_path: Path) -> Path:
    """A Python that has pip and nothing else; Debian's own may lack what `python -m venv` takes pip from."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "python"], check=True)
    (site,) = (tmp_path / "python" / "lib").glob("python*/site-packages")
    shutil.copytree(Path(sysconfig.get_path("purelib")) / "pip", site / "pip")
    return tmp_path / "python" / "bin" / "python"


@pytest.fixture
def ci_env(env: dict[str, str], python_with_pip: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a runner: a Python of its own, which finds what reprobuild needs installed already."""
    (site,) = (python_with_pip.parent.parent / "lib").glob("python*/site-packages")
    (site / "installed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (tmp_path / "home").mkdir()
    return {**env, "PATH": f"{python_with_pip.parent}:{env['PATH']}", "HOME": str(tmp_path / "home")}


@pytest.mark.long
def test_in_ci(built_example: Built, env: dict[str, str], ci_env: dict[str, str], tmp_path: Path) -> None:
    """The steps of GitHub's job are run, each in a shell of its own; no line of GitLab's is missing among them."""
    work = tmp_path / "project"
    work.mkdir()
    yours = {"SNAPSHOT": EXAMPLE / "snapshot", "FROZEN": built_example.out}
    run_guide(guide("ci"), work, {"here": here(env)}, yours)
    (github,) = yaml.safe_load((work / ".github/workflows/frozen.yml").read_text())["jobs"].values()
    scripts = [step["run"] for step in github["steps"] if "run" in step]
    others = {step["uses"].partition("@")[0] for step in github["steps"] if "run" not in step}
    assert others == {f"actions/{name}" for name in ("checkout", "setup-python", "cache", "upload-artifact")}
    gitlab = yaml.safe_load((work / ".gitlab-ci.yml").read_text())["frozen"]
    assert len(gitlab["script"]) >= 4
    assert set(gitlab["script"]) <= set(scripts)
    assert github["env"]["REPROBUILD"] == gitlab["variables"]["REPROBUILD"]

    job = here({**ci_env, "REPROBUILD": str(ROOT)})
    for script in scripts:
        done = job(f"set -e\n{script}", work)
        assert done.returncode == 0, f"{script}\n{done.stdout}"
    report = github["steps"][-1]["with"]["path"]
    assert report in gitlab["artifacts"]["paths"]
    assert (work / report).is_file()


def test_the_action(built_example: Built, ci_env: dict[str, str], tmp_path: Path) -> None:
    """The steps of `action.yml` run as GitHub's runner runs them; no value of an input is a part of a script."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    work, kept = tmp_path / "project", tmp_path / "project" / "environment"
    shutil.copytree(EXAMPLE / "snapshot", kept / "snapshot")
    for path in (
        EXAMPLE / "reprobuild.yaml",
        EXAMPLE / "tinytrain.bundle",
        built_example.out / "reprobuild.lock",
    ):
        shutil.copy(path, kept)
    values = {f"inputs.{name}": field.get("default", "") for name, field in action["inputs"].items()}
    values |= {"inputs.snapshot": "environment/snapshot", "inputs.lock": "environment/reprobuild.lock"}
    values |= {"inputs.decisions": "environment/reprobuild.yaml", "github.action_path": str(ROOT)}
    output = tmp_path / "output"
    for step in action["runs"]["steps"]:
        assert (step["shell"], "${{" in step["run"]) == ("bash", False)
        written = {name: re.fullmatch(r"\$\{\{ (\S+) \}\}", value) for name, value in step["env"].items()}
        variables = {name: values[match[1]] for name, match in written.items() if match}
        assert variables.keys() == step["env"].keys()
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=work, check=False,
            env={**ci_env, **variables, "GITHUB_OUTPUT": str(output)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
    assert "round trip: explained" in done.stdout
    assert output.read_text() == "report=frozen/report.html\n"
    assert (work / "frozen" / "report.html").is_file()
    assert list(action["outputs"]) == ["report"]


# --- where there is no Docker, or no network ---------------------------------------------------


@pytest.mark.long
def test_on_a_cluster_without_docker(
    env: dict[str, str], apptainer_env: Mapping[str, str], tmp_path: Path
) -> None:
    path = f"{Path(sys.executable).parent}:{apptainer_env['PATH']}"
    nodes = {**env, "PATH": path, "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    machines = {"cluster": here(nodes, (*SLURM, "--folder", PACKAGES, "--")), "login": here(env)}
    yours = {"SNAPSHOT": EXAMPLE / "snapshot", "DECISIONS": EXAMPLE / "reprobuild.yaml"}
    run_guide(guide("slurm-without-docker"), tmp_path, machines, yours)


def test_for_operators(env: dict[str, str], tmp_path: Path) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    private = {**env, "XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_DATA_HOME": str(tmp_path / "data")}
    yours = {"GROUP": group, "STORE": tmp_path / "store"}
    run_guide(guide("operators"), tmp_path, {"here": here(private)}, yours)
    assert (tmp_path / "store").stat().st_mode & 0o7777 == 0o3770


@pytest.mark.long
def test_a_bundle_of_somebody_else(built_example: Built, env: dict[str, str], tmp_path: Path) -> None:
    """The author signs the bundle of a verified image; the reader has another home."""
    author = built_example.copy(tmp_path / "author")
    key, bundle = tmp_path / "key", tmp_path / "frozen.tar"
    reader = {**env, **another_user(tmp_path / "reader", built_example.store), "HOME": str(tmp_path)}
    (tmp_path / "desk").mkdir()
    yours = {"BUNDLE": bundle, "KEY": f"{key}.pub"}
    with open_folder() as folder:
        path = f"{openssh_client(folder)}:{env['PATH']}"
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key]
        subprocess.run(make, check=True, env={**env, "PATH": path})
        signed = "bundle", author, "-o", bundle, "--sign", key, "--store", built_example.store
        done = reprobuild(*signed, env={**env, "PATH": path})
        assert done.returncode == 0, done.stderr
        machines = {"here": here({**reader, "PATH": path})}
        ran = run_guide(guide("received"), tmp_path / "desk", machines, yours)
    assert "the same platform, and all " in ran.outputs[-1]


@pytest.mark.long
def test_at_a_site_without_a_network(
    built_example: Built, env: dict[str, str], tmp_path: Path, python_with_pip: Path
) -> None:
    """The other side has another store, another home, no reprobuild, and no network but a loopback that is down."""
    (tmp_path / "medium").mkdir()
    (tmp_path / "home").mkdir()
    own = ("DOCKER_HOST", "DOCKER_CONFIG", "LANG")
    inside = {
        **{name: os.environ[name] for name in own if name in os.environ},
        "PATH": f"{python_with_pip.parent}:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
    }
    machines = {"connected": here(env), "inside": here(inside, ("unshare", "--net", "--"))}
    yours = {"FROZEN": built_example.out, "MEDIUM": tmp_path / "medium"}
    work = tmp_path / "work"
    work.mkdir()
    run_guide(guide("air-gapped"), work, machines, yours)
