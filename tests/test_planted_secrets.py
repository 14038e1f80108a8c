"""`show` has no secret of a captured file, in whichever field or name of a file it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprobuild.cli.main import run_line
from reprobuild.snapshot.capture_document import CaptureDocument
from tests.snapshot.samples import SECRETS
from tests.untrusted.samples_of import Place, replaced, sample, string_places

TOKEN = SECRETS["github"]
LOGIN = "https://joe:hunter2hunter2@h.example/x"
# A token as it is, and as an address may have it.
SPELLINGS = {TOKEN: TOKEN, TOKEN.replace("ghp", "%67hp"): TOKEN, LOGIN: "hunter2"}
ID = "0123456789abcdef0123456789abcdef01234567"
URL = "https://conda.example/main/linux-64/six-1.0-h1_0.conda"
CONTENTS = {
    "requirements.txt": f"""six==1.16.0
# Editable install with no version control (tool==1.0)
-e /home/joe/tool
-e git+https://git.example/joe/r.git@{ID}#egg=r
pkg @ https://files.example/a/pkg-1.0-py3-none-any.whl#sha256={ID}
own @ file:///home/joe/own-1.0.tar.gz
--index-url https://index.example/simple
WARNING: Ignoring invalid distribution ~orch (/site)
WARNING: Could not generate requirement for distribution torch 1.0 (/site): Parse error
WARNING: Skipping /site/numpy-1.0.dist-info due to invalid metadata entry 'name'
idna>=3 ; python_version < "3.9"
odd line of text
""",
    "conda-list.txt": f"""# packages in environment at /opt/e:
# Name Version Build Channel
python 3.11.8 h1_0 conda-forge
idna=1.0=h1_0
zlib-1.2
{URL}#{ID[:32]}
https://conda.example/main/noarch/odd-file.txt
six-1.1-h2_0.conda
""",
    "environment.yml": """name: e
channels:
  - conda-forge
dependencies:
  - python=3.11.8=h1_0
  - main::zlib=1.2=h1_0
  - nala>=2,<3
  - odd/item
  - pip:
      - idna==1.0
      - requests>=2
prefix: /opt/e
variables:
  LEVEL: x
other: [y]
""",
    "env.txt": "PATH=/usr/bin\nLEVEL=3\n# OTHER=3\nodd line\nBASH_FUNC_f%%=() {  x\n}\n",
    "env.nul": "PATH=/usr/bin\0LEVEL=3\0",
    "apt-packages.txt": "Listing...\n"
    "bash/stable,now 5.2 amd64 [installed]\nzlib/now 1.2 amd64 [installed,local]\nodd line\n",
    "dpkg.txt": "ii  bash  5.2  amd64  shell\nrc  zlib  1.2  amd64  text\n",
    "rpm-packages.txt": "bash 5.2-1 x86_64\nzlib-1.2-3.x86_64\nodd line\n",
    "modules.txt": "Currently Loaded Modules:\n"
    "  1) gcc/12.2   2) cuda/12.1 -> cuda/12.2\nInactive Modules:\n  1) odd\n",
    "collect-env.txt": """PyTorch version: 2.3.1
CUDA used to build PyTorch: 12.1
OS: Debian GNU/Linux
Libc version: glibc-2.36
Python version: 3.11.2 (main)
GPU models and configuration: GPU 0: NVIDIA A100
Nvidia driver version: 535.1
cuDNN version: 8.9
[pip3] torch==2.3.1
odd line
""",
    "python.txt": "Python 3.11.2 (main, Mar 13 2023, 12:18:29) [GCC 12.2.0]\nlinux-x86_64\n",
    "nvidia-smi.txt": "GPU 0: NVIDIA A100 (UUID: GPU-1)\n"
    "| NVIDIA-SMI 535.1   Driver Version: 535.2   CUDA Version: 12.2 |\n",
    "work.diff": "diff --git a/x.py b/y.py\n"
    f"index {ID}..{ID} 100644\n--- a/x.py\n+++ b/y.py\n@@ -1 +1 @@ top\n-a\n+b\n",
    "import.json": json.dumps(
        {
            "format": "pip inspect", "started": "2026-01-01", "started_from": "f", "requires_python": ">=3.9",
            "origins": [{"file": "f", "line": 1, "source": "s", "field": "g"}],
            "unused": [{"source": "s", "field": "g", "reason": "r"}],
            "data": [{"path": "p", "md5": ID[:32], "source": "s", "field": "g"}],
        }
    ),
}  # fmt: skip
HAVE_ADDRESSES = ("requirements.txt", "conda-list.txt", "environment.yml", "import.json")
NAMES = ("{}.diff", "{}.lock", "{}.patch", "{}.bundle", "{}.txt", "{}")


def shown(folder: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """Return what `show` and `show --json` print on a snapshot, or their errors."""
    for options in ([], ["--json"]):
        run_line(["show", str(folder), *options])
    text = "".join(capfd.readouterr())
    assert "this is a bug" not in text
    return text


def planted(content: str, word: str) -> Iterator[str]:
    """Yield a content with a word in place of each of its words in turn."""
    for match in re.finditer(r"[\w.~%+-]+", content):
        yield f"{content[: match.start()]}{word}{content[match.end() :]}"


def documents() -> Iterator[tuple[Place, Any]]:
    good = sample(CaptureDocument)
    good["capture"] = 1
    good["repositories"][0] |= {"parent": None, "path": ""}
    good["repositories"][0]["diff"]["file"] = None
    for place, _ in string_places(good):
        yield place, good


@pytest.mark.parametrize("word", SPELLINGS)
@pytest.mark.parametrize("name", CONTENTS)
def test_no_word_of_a_file_is_shown_if_it_is_a_secret(
    name: str, word: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if name == "import.json":
        (tmp_path / "python.txt").write_text(CONTENTS["python.txt"])
    if word == LOGIN and name not in HAVE_ADDRESSES:
        return
    leaks = []
    for content in planted(CONTENTS[name], word):
        (tmp_path / name).write_text(content)
        if SPELLINGS[word] in shown(tmp_path, capfd):
            leaks.append(next(row for row in content.split("\n") if word in row))
    assert leaks == []


@pytest.mark.parametrize("word", SPELLINGS)
def test_no_field_of_a_capture_is_shown_if_it_is_a_secret(
    word: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    leaks = []
    (tmp_path / "capture.json").write_text(json.dumps(next(documents())[1]))
    assert "error:" not in shown(tmp_path, capfd)
    for place, good in documents():
        (tmp_path / "capture.json").write_text(json.dumps(replaced(good, place, word)))
        if SPELLINGS[word] in shown(tmp_path, capfd):
            leaks.append(place)
    assert leaks == []


@pytest.mark.parametrize("name", NAMES)
def test_no_name_of_a_file_is_shown_if_it_is_a_secret(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "python.txt").write_text(CONTENTS["python.txt"])
    path = tmp_path / name.format(TOKEN)
    for content in ("@EXPLICIT\n" + URL, CONTENTS["work.diff"], "", "\0"):
        path.write_text(content)
        assert TOKEN not in shown(tmp_path, capfd)
    path.unlink()
    path.mkdir()
    assert TOKEN not in shown(tmp_path, capfd)
