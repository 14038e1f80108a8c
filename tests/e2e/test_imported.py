"""Runs and lock files up to an image whose round trip is explained: each names the same two distributions."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import yaml

from reprobuild.lock.file import read_lock
from tests.conda.python_package import python_package
from tests.conda.test_environment import ZED
from tests.conda_packages import index_channel, write_package
from tests.conftest import reprobuild
from tests.e2e.test_planted_secrets import forms, unpacked
from tests.loopback import Loopback
from tests.snapshot.importers.tools import Tools

PINS = {"click": "8.1.7", "iniconfig": "2.0.0"}
COMMON = ("--python", "3.11.2", "--base", "debian/bookworm", "--accept", "no-apt-list", "--no-probes")
# The format of poetry 1.8, as its own locks in public repositories have it.
POETRY = """\
[[package]]
name = "{name}"
version = "{version}"
description = ""
optional = false
python-versions = ">=3.7"
files = []

"""


def uv_lock(folder: Path) -> Path:
    needs = ", ".join(f'"{name}=={version}"' for name, version in PINS.items())
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "job"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = [{needs}]\n'
    )
    subprocess.run([sys.executable, "-m", "uv", "lock", "-q"], cwd=folder, check=True)
    return folder / "uv.lock"


def poetry_lock(folder: Path) -> Path:
    packages = "".join(POETRY.format(name=name, version=version) for name, version in PINS.items())
    (folder / "poetry.lock").write_text(
        f'{packages}[metadata]\nlock-version = "2.0"\npython-versions = "^3.11"\n'
    )
    return folder / "poetry.lock"


def freeze() -> str:
    return "".join(f"{name}=={version}\n" for name, version in PINS.items())


# Names of a person and a machine, and secrets, where a run of W&B has them: none may leave the run.
TOKEN, DIGITS = "ghp_" + "a1B2c3D4e5F6" * 3, "9f8e7d6c5b4a3210" * 2 + "a0b1c2d3"
LOGIN = "-".join(["hunter22", "Kz9"])
PLANTED = ("zaphod-beeblebrox", "gpu-17.lab", "lab.example", TOKEN, DIGITS, LOGIN)
PROGRAM = f"""\
import wandb
config = {{"contact": "zaphod-beeblebrox@lab.example", "api_key": "{DIGITS}", "lr": 1}}
run = wandb.init(project="p", config=config, mode="offline", settings=wandb.Settings(save_code=True))
run.summary["login"] = "postgres://zaphod-beeblebrox:{LOGIN}@gpu-17.lab.example/x"
print("zaphod-beeblebrox on gpu-17.lab.example")
run.finish()
"""


def wandb_run(folder: Path) -> Path:
    """Return an offline run that W&B wrote, with the Python and the distributions of all imports."""
    work = folder / "work"
    work.mkdir()
    (work / "train.py").write_text(PROGRAM)
    git = ["git", "-c", "user.name=zaphod-beeblebrox", "-c", "user.email=zaphod-beeblebrox@lab.example"]
    remote = f"https://zaphod-beeblebrox:{TOKEN}@git.example/job.git"
    for words in (
        ["init", "-q"],
        ["remote", "add", "origin", remote],
        ["add", "."],
        ["commit", "-q", "-m", "x"],
    ):
        subprocess.run([*git, *words], cwd=work, check=True)
    (work / "train.py").write_text(f'{PROGRAM}token = "{TOKEN}"\n')
    variables = {
        "WANDB_API_KEY": DIGITS, "WANDB_USERNAME": "zaphod-beeblebrox", "WANDB_EMAIL": "zaphod-beeblebrox@lab.example",
        "USER": "zaphod-beeblebrox",
        "WANDB_HOST": "gpu-17.lab.example", "WANDB_NOTES": f"of zaphod-beeblebrox, with {TOKEN}",
    }  # fmt: skip
    words = ("train.py", "--user", "zaphod-beeblebrox@lab.example", "--token", TOKEN)
    Tools(folder / "tools").run("old", "python", *words, cwd=work, **variables)
    (run,) = (work / "wandb").glob("offline-run-*")
    listed = run / "files" / "requirements.txt"
    assert "wandb==0.18.7" in listed.read_text()
    listed.write_text(f"--extra-index-url https://zaphod-beeblebrox:{LOGIN}@index.example/simple\n{freeze()}")
    metadata = run / "files" / "wandb-metadata.json"
    stated = json.loads(metadata.read_text())
    assert {"email", "host", "username", "args", "git"} <= stated.keys()
    metadata.write_text(json.dumps(stated | {"python": "CPython 3.11.2"}))
    planted = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert [text for text in PLANTED if text.encode() not in planted] == []
    return run


def mlflow_model(folder: Path) -> Path:
    model = folder / "model"
    model.mkdir()
    (model / "MLmodel").write_text(
        "flavors:\n  python_function:\n    env:\n      virtualenv: python_env.yaml\n    python_version: 3.11.2\n"
        "utc_time_created: '2024-01-15 12:00:00.000000'\n"
    )
    (model / "python_env.yaml").write_text("python: 3.11.2\ndependencies:\n- -r requirements.txt\n")
    (model / "requirements.txt").write_text(freeze())
    return model


def bare_list(folder: Path) -> Path:
    (folder / "requirements.txt").write_text("click<8.2\niniconfig\n")
    return folder / "requirements.txt"


@pytest.mark.parametrize(
    ("make", "options", "outcome"),
    [
        pytest.param(uv_lock, (), "pinned", marks=pytest.mark.long),
        (poetry_lock, (), "pinned"),
        pytest.param(wandb_run, (), "pinned", marks=pytest.mark.long),
        (mlflow_model, (), "pinned"),
        (bare_list, ("--as-of", "2024-01-15"), "solved"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_an_import_becomes_a_verified_image(
    make: Callable[[Path], Path], options: tuple[str, ...], outcome: str, tmp_path: Path, test_store: Path
) -> None:
    out = tmp_path / "out"
    done = reprobuild(
        "from-snapshot", make(tmp_path), "-o", out, "--store", test_store, *COMMON, *options, cwd=tmp_path
    )
    assert done.returncode == 9, done.stderr + done.stdout  # the probes were left out
    assert "round trip: explained" in done.stdout
    lock = read_lock(out / "reprobuild.lock")
    assert {wheel.name: wheel.version for wheel in lock.wheels if wheel.role == "environment"} == PINS
    outcomes = {ruling.subject: ruling.outcome for ruling in lock.rulings if ruling.subject in PINS}
    assert set(outcomes.values()) == {outcome}
    assert (out / "snapshot" / "import.json").is_file()
    if make is wandb_run:
        assert_nothing_left(out, done.stdout + done.stderr, test_store)
    if outcome == "solved":
        assert "solved: 2 versions were chosen, not captured" in done.stdout
        assert lock.decisions.as_of == "2024-01-16T00:00:00Z"
        verdict = json.loads((out / "verdict.json").read_bytes())
        codes = {each["captured"]: each["code"] for each in verdict["differences"]}
        assert codes["click<8.2"] == "solved-version"


def assert_nothing_left(out: Path, said: str, store: Path) -> None:
    """Check that no planted text is in an output directory, in its bundle, and in what the program said."""
    bundle, inside = out.parent / "frozen.tar", out.parent / "inside"
    done = reprobuild("bundle", out, "-o", bundle, "--store", store)
    assert done.returncode == 0, done.stderr
    inside.mkdir()
    subprocess.run(["tar", "-xf", bundle, "-C", inside], check=True)
    files = [path for top in (out, inside) for path in top.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {
        "import.json",
        "reprobuild.lock",
        "report.html",
        "verdict.json",
        "provenance.intoto.json",
        "Dockerfile",
    } <= names
    assert [path for path in files if "blobs" in path.parts]  # the image: its layers and its configuration
    traces = [form for text in PLANTED for form in forms(text)]
    assert [trace for trace in traces if trace in said.encode()] == []
    for path in files:
        for content in unpacked(path):
            assert [trace for trace in traces if trace in content] == [], path


def locked_wheels(folder: Path) -> list[dict[str, str]]:
    """Return name, version, address and sha256 of the wheels, as uv locks them."""
    document = msgspec.toml.decode(uv_lock(folder).read_bytes())
    return [
        {
            "name": package["name"], "version": package["version"], "pypi": package["wheels"][0]["url"],
            "sha256": package["wheels"][0]["hash"].removeprefix("sha256:"),
        }
        for package in document["package"] if package["name"] in PINS
    ]  # fmt: skip


class Channel(http.server.SimpleHTTPRequestHandler):
    """Answers with the files of one directory."""

    def log_message(self, *_: object) -> None:
        pass


def pixi_lock(folder: Path, channel: Path, url: str) -> Path:
    """Write a channel, and the lock of its packages and of two wheels, in the format of pixi's version 6."""
    for spec in (python_package(), ZED):
        write_package(spec, channel)
    index_channel(channel)
    packages: list[dict[str, str]] = []
    for path in sorted((*channel.rglob("*.conda"), *channel.rglob("*.tar.bz2"))):
        content = path.read_bytes()
        packages.append(
            {
                "conda": f"{url}/{path.parent.name}/{path.name}",
                "sha256": hashlib.sha256(content).hexdigest(), "md5": hashlib.md5(content).hexdigest(),
            }
        )  # fmt: skip
    packages += locked_wheels(folder)
    entries = [{kind: each[kind]} for each in packages for kind in ("conda", "pypi") if kind in each]
    document = {
        "version": 6, "packages": packages, "environments": {
            "default": {
                "channels": [{"url": f"{url}/"}],
                "indexes": ["https://index.example.org/simple"], "packages": {"linux-64": entries},
            },
        },
    }  # fmt: skip
    (folder / "pixi.lock").write_text(yaml.safe_dump(document, sort_keys=False))
    return folder / "pixi.lock"


def test_a_lock_of_pixi_becomes_a_verified_image(tmp_path: Path, test_store: Path) -> None:
    out, channel = tmp_path / "out", tmp_path / "lab"
    env = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    handler = functools.partial(Channel, directory=str(channel))
    with Loopback(handler) as server:  # type: ignore[arg-type]  # a partial stands for the class
        path = pixi_lock(tmp_path, channel, server.url)
        done = reprobuild(
            "from-snapshot", path, "-o", out, "--store", test_store, "--base", "debian/bookworm", "--accept",
            "no-apt-list", "--no-probes", cwd=tmp_path, env=env,
        )  # fmt: skip
    assert done.returncode == 9, done.stderr + done.stdout  # the probes were left out
    assert "round trip: explained" in done.stdout
    lock = read_lock(out / "reprobuild.lock")
    assert lock.interpreter.kind == "conda"
    assert {package.name for package in lock.conda} == {"python", "libzed"}
    assert {wheel.name: wheel.version for wheel in lock.wheels if wheel.role == "environment"} == PINS
    outcomes = {ruling.subject: ruling.outcome for ruling in lock.rulings if ruling.subject in PINS}
    assert outcomes == dict.fromkeys(PINS, "pinned")
    ran = reprobuild(
        "run", out, "--", "python", "-c", "import click, sys; print(click.__version__, sys.prefix)"
    )
    assert ran.stdout == "8.1.7 /opt/env\n", ran.stderr


def test_an_import_is_made_again_into_the_same_directory(tmp_path: Path, test_store: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        done = reprobuild(
            "from-snapshot", bare_list(tmp_path), "-o", out, "--store", test_store, *COMMON, "--no-verify",
            "--accept", "index-line", cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_a_pinned_list_that_is_not_complete_is_asked_for_and_completed(tmp_path: Path) -> None:
    """All lines of it have versions, and none names what the first requires."""
    listed = tmp_path / "requirements.txt"
    listed.write_text("markdown-it-py==3.0.0\nclick==8.1.7\n")
    argv = ["lock", listed, "-o", tmp_path / "a.lock", "--store", tmp_path / "store", *COMMON[:-1]]
    refused = reprobuild(*argv)
    assert refused.returncode == 4
    assert "the list is not complete: mdurl is required and missing" in refused.stderr
    hint = "to add them, with the versions of the day of the run: --as-of DATE\n"
    assert hint in refused.stderr
    assert "--accept no-freeze" in refused.stderr[refused.stderr.index(hint) :]
    followed = reprobuild(*argv, "--as-of", "2024-01-15")
    assert followed.returncode == 0, followed.stderr
    versions = {wheel.name: wheel.version for wheel in read_lock(tmp_path / "a.lock").wheels}
    assert versions == {"markdown-it-py": "3.0.0", "click": "8.1.7", "mdurl": "0.1.2"}
