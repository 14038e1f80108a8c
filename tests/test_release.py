"""The package and the files beside the code: what a release needs, and one place for each fact."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from reprobuild import __version__
from reprobuild.lock.file import VERSION as LOCK
from reprobuild.verify.determinism.document import FORMAT as PROBES
from reprobuild.verify.verdict import VERSION as VERDICT
from reprobuild_portable.capture.model import VERSION as CAPTURE

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCE = PROJECT["urls"]["Source"]
PACKAGES = ("reprobuild", "reprobuild_portable", "reprobuild_runtime")


def test_each_file_has_the_version_and_the_address_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert citation["version"] == PROJECT["version"] == __version__
    assert citation["repository-code"] == SOURCE
    assert citation["license"] == PROJECT["license"]
    assert {"message", "title", "authors"} <= citation.keys()
    assert f"\n## {__version__} " in (ROOT / "CHANGELOG.md").read_text()
    assert f"git+{SOURCE}@v{__version__}" in (ROOT / "docs/guides/ci.md").read_text()
    assert f"uses: {SOURCE.split('/', 3)[3]}@v{__version__}" in (ROOT / "docs/guides/ci.md").read_text()


def test_each_link_begins_with_the_address() -> None:
    """A fork changes one file."""
    assert all(url.startswith(SOURCE) for url in PROJECT["urls"].values())
    host = SOURCE.split("/")[2]
    texts = [path for path in ROOT.glob("*.*") if path.suffix in (".md", ".cff", ".yml", ".yaml")]
    links = {link for path in texts for link in re.findall(rf"https://{host}[^\s)\"]*", path.read_text())}
    assert links
    assert all(link.startswith(SOURCE) for link in links)


def test_each_package_has_types() -> None:
    assert all((ROOT / package / "py.typed").read_bytes() == b"" for package in PACKAGES)


def test_the_programs_that_it_starts_are_dependencies() -> None:
    """An environment that `uv tool install` makes has no pip, unless a dependency brings it."""
    assert {"pip", "uv"} <= {Requirement(line).name for line in PROJECT["dependencies"]}


def test_the_page_of_formats_has_their_numbers() -> None:
    text = (ROOT / "docs/versions.md").read_text()
    rows = dict(re.findall(r"^\| `?([^|`]+?)`? \| `\w+` \| (\d+) \|", text, re.MULTILINE))
    assert {name: int(number) for name, number in rows.items() if name != "reprobuild-record/*.jsonl"} == {
        "reprobuild.lock": LOCK, "capture.json": CAPTURE, "verdict.json": VERDICT,
        "answers of the probes in an image": PROBES,
    }  # fmt: skip


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_forms_and_workflows_are_yaml(path: Path) -> None:
    document = yaml.safe_load(path.read_text())
    assert {"name", "blank_issues_enabled"} & document.keys()
    for field in document.get("body", ()):
        assert field["type"] in ("markdown", "input", "textarea")
        assert field["attributes"]


def test_the_pre_commit_hook_reads_a_snapshot(reprobuild_command: list[str]) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert re.search(hook["files"], "environment/snapshot/requirements.txt")
    program, *arguments = hook["entry"].split()
    assert program == "reprobuild"
    done = subprocess.run(
        [*reprobuild_command, *arguments, ROOT / "examples/cpu-train/snapshot"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "requirements" in done.stdout) == (0, True)


@pytest.fixture
def reprobuild_command() -> list[str]:
    """The command of this checkout."""
    return [sys.executable, "-m", "reprobuild.cli"]


def test_a_missing_extra_is_named_with_its_install_line(tmp_path: Path) -> None:
    """The hint's own words name the extra that holds rattler."""
    program = (
        "import sys; sys.modules['rattler'] = None\n"
        "from pathlib import Path\nfrom reprobuild.ecosystems.conda.linking import run_rattler\n"
        "from reprobuild.errors import EngineError\n"
        "try:\n    run_rattler({'find': {}}, Path(sys.argv[1]), 'find')\n"
        "except EngineError as err:\n    print(err, err.hint, sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    message, hint = done.stdout.splitlines()
    assert message == "the packages of conda need rattler, which is not installed"
    assert hint == "install reprobuild with its extra: `pip install 'reprobuild[conda]'`"
    (extra,) = re.findall(r"reprobuild\[(\w+)\]", hint)
    assert any(line.startswith("py-rattler") for line in PROJECT["optional-dependencies"][extra])
    assert not any(line.startswith("py-rattler") for line in PROJECT["dependencies"])
