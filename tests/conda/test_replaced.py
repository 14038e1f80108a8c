"""What pip installed over conda's packages: theirs go whole, whatever kind of metadata they have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.sandbox.model import Root
from reprobuild.lock.python import Interpreter
from reprobuild.realise.conda import link_conda
from reprobuild.store.store import Store
from tests.conda.test_linking import PYTHON, never
from tests.conda.test_scripts import root as root
from tests.conda_packages import Spec, locked
from tests.verify.samples import make_lock, wheel

SITE = "lib/python3.11/site-packages"
RECORD = b"yaml/__init__.py,,\nPyYAML-5.3.1.dist-info/METADATA,,\n"
CONDA = Interpreter(version="3.11.2", executable="/opt/env/bin/python3.11", evidence="made", kind="conda")


def linked(
    tmp_path: Path, metadata: dict[str, bytes], *, names: tuple[str, ...] = ("pyyaml",), script: str = "",
    root: Callable[[], Root] = never,
) -> list[str]:  # fmt: skip
    """Link conda's PyYAML, with pip's over it, run its script, and return what is left beside Python."""
    store = Store(tmp_path / "store")
    files = {"yaml/__init__.py": b"", "yaml/loader.py": b"", "_yaml.so": b"", **metadata}
    spec = Spec(name="pyyaml", files={f"{SITE}/{name}": content for name, content in files.items()})
    if script:
        spec.files = {**spec.files, "bin/.pyyaml-post-link.sh": script.encode()}
    package = msgspec.structs.replace(locked(spec, tmp_path, store), distributions=names)
    lock = make_lock(
        interpreter=CONDA,
        conda=(package, locked(PYTHON, tmp_path, store)),
        wheels=(wheel("PyYAML", "6.0"),),
        sources=(),
    )
    link_conda(lock, tmp_path / "tree", root, store)
    prefix = tmp_path / "tree/opt/env"
    assert [path.name for path in prefix.glob("conda-meta/*.json")] == ["python-3.11.2-h1_0.json"]
    return sorted(
        path.relative_to(prefix / SITE).as_posix() for path in (prefix / SITE).rglob("*") if path.is_file()
    )


@pytest.mark.parametrize(
    "metadata",
    [
        {"PyYAML-5.3.1-py3.8.egg-info": b"Name: PyYAML\n"},
        {"PyYAML-5.3.1-py3.8.egg-info/PKG-INFO": b"", "PyYAML-5.3.1-py3.8.egg-info/top_level.txt": b"yaml\n"},
        {"PyYAML-5.3.1.dist-info/METADATA": b"Name: PyYAML\n"},
    ],
    ids=["a file", "a directory", "without RECORD"],
)  # fmt: skip
def test_without_a_record_the_files_are_those_that_conda_lists(
    tmp_path: Path, metadata: dict[str, bytes]
) -> None:
    assert linked(tmp_path, metadata) == []


def test_a_record_tells_the_files(tmp_path: Path) -> None:
    metadata = {"PyYAML-5.3.1.dist-info/METADATA": b"", "PyYAML-5.3.1.dist-info/RECORD": RECORD}
    assert linked(tmp_path, metadata) == ["_yaml.so", "yaml/loader.py"]


def test_others_of_the_same_package_stay(tmp_path: Path) -> None:
    more = {"other/__init__.py": b"", "other-1.0.dist-info/METADATA": b""}
    metadata = {"PyYAML-5.3.1.dist-info/METADATA": b"", "PyYAML-5.3.1.dist-info/RECORD": RECORD, **more}
    left = linked(tmp_path, metadata, names=("other", "pyyaml"))
    assert left == ["_yaml.so", *sorted(more), "yaml/loader.py"]


def test_what_is_not_where_pip_looks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        BuildError, match="pip installed pyyaml over conda's, and conda's packages do not have"
    ) as caught:
        linked(tmp_path, {"deep/PyYAML-5.3.1.dist-info/METADATA": b""})
    assert caught.value.hint == (
        "leave conda's package out with `--drop NAME`, and name a wheel of it; or make the lock again"
    )


@pytest.mark.parametrize("script", ['echo "{" > "$PREFIX/{}"\n', 'echo "{\\"files\\": 3}" > "$PREFIX/{}"\n'])
def test_a_record_that_a_script_damaged_is_an_error(root: Root, script: str, tmp_path: Path) -> None:
    script = script.replace("{}", "conda-meta/pyyaml-1.0-0.json")
    with pytest.raises(
        BuildError, match=r"left something else than conda-meta/pyyaml-1\.0-0\.json"
    ) as caught:
        linked(tmp_path, {"PyYAML-5.3.1-py3.8.egg-info": b""}, script=script, root=lambda: root)
    assert caught.value.hint == "its script is hostile, or broken; leave the package out with `--drop NAME`"
