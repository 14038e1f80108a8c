"""The pictures of docs/pictures, made from real runs by `make pictures`: report, site and terminal.

pytest collects this file only if it is named. OUT is an output directory with a report, SITE the built site.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from tests.browser import Browser

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "pictures"
DARK = {"prefers-color-scheme": "dark"}
COLUMNS = 112
_FONTS = re.compile(r"@font-face \{.*?\}", re.DOTALL)  # rich names a host for its fonts


@pytest.mark.parametrize(
    ("name", "width", "features", "media"),
    [
        ("report", 1280, {}, ""),
        ("report-dark", 1280, DARK, ""),
        ("report-phone", 390, {}, ""),
        ("report-print", 794, {}, "print"),
    ],
)
def test_the_report(name: str, width: int, features: dict[str, str], media: str, browser: Browser) -> None:
    browser.open(
        (Path(os.environ["OUT"]) / "report.html").read_text(), width=width, features=features, media=media
    )
    browser.picture(TARGET / f"{name}.png")
    assert browser.overflow() == 0


@pytest.mark.parametrize(("name", "width"), [("site", 1280), ("site-phone", 390)])
def test_the_site(name: str, width: int, browser: Browser) -> None:
    site = Path(os.environ["SITE"])
    files = {f"/{path.relative_to(site)}": path for path in site.rglob("*") if path.is_file()}
    browser.proxy.pages |= {path: file.read_bytes() for path, file in files.items()}
    browser.visit("/docs/README.html", width=width)
    browser.picture(TARGET / f"{name}.png")
    assert browser.overflow() == 0


def test_the_terminal() -> None:
    command = ["reprobuild", "show", "examples/cpu-train/snapshot"]
    env = {
        **os.environ,
        "FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "PATH": f"{Path(sys.executable).parent}:/bin",
    }
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(f"$ {' '.join(command)}", markup=False, highlight=False)
    console.print(Text.from_ansi(done.stdout))
    picture = _FONTS.sub("", console.export_svg(title="reprobuild"))
    assert not re.search(r"url\([\x22\x27]?http", picture)
    (TARGET / "terminal.svg").write_text(picture)
