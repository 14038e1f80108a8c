"""Chromium and its driver for tests on a Debian machine without them.

Nothing is installed.

    python dev/private_browser.py prepare --folder DIR
    python dev/private_browser.py clean --folder DIR

`prepare` downloads both with their dependencies (200 MB) from the Debian mirror of the machine's own apt sources,
unpacks them into the directory, and writes DIR/bin/chromium and DIR/bin/chromedriver. These start them with the
libraries and fonts of the directory alone. The browser keeps no data there: its caller gives it a profile.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from private_apt import EngineError, say
from private_packages import prepare_folder, search_paths

PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core")
LOCK_NAME = "private-browser.lock"
PROGRAMS = {"chromium": "usr/lib/chromium/chromium", "chromedriver": "usr/bin/chromedriver"}
# Debian's own configuration of fonts is put together by maintainer scripts, which do not run.
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{root}/usr/share/fonts</dir>
  <cachedir>{folder}/fonts</cachedir>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


def write_programs(folder: Path) -> None:
    """Write the fonts' configuration, and the starting programs."""
    root = folder / "root"
    for name in ("bin", "home"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "fonts.conf").write_text(FONTS.format(root=root, folder=folder), encoding="utf-8")
    libraries = search_paths(root)["LD_LIBRARY_PATH"].split(":")
    # Debian's PulseAudio finds its own library by an absolute path.
    libraries += [str(path) for path in sorted(root.glob("usr/lib/*-linux-*/pulseaudio"))]
    variables = {
        "LD_LIBRARY_PATH": ":".join(libraries),
        "FONTCONFIG_FILE": str(folder / "fonts.conf"),
        "XDG_DATA_DIRS": str(root / "usr/share"),
        "HOME": str(folder / "home"),  # for the certificates, kept here even with a profile elsewhere
    }
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    for name, path in PROGRAMS.items():
        if not (root / path).exists():
            raise EngineError(f"the packages have no {path}", "report this: Debian moved the file")
        program = folder / "bin" / name
        lines = ["#!/bin/sh", *exports, f'exec {shlex.quote(str(root / path))} "$@"', ""]
        program.write_text("\n".join(lines), encoding="utf-8")
        program.chmod(0o755)


def main(argv: Sequence[str]) -> int:
    """Read the command line, and do its command."""
    top = argparse.ArgumentParser(description="Chromium and chromedriver, without installing them.")
    verbs = top.add_subparsers(dest="verb", required=True)
    for verb in ("prepare", "clean"):
        verbs.add_parser(verb).add_argument("--folder", type=Path, required=True)
    options = top.parse_args(argv)
    folder = options.folder.resolve()
    if options.verb == "prepare":
        prepare_folder(folder, PACKAGES, write_programs, LOCK_NAME)
    elif (folder / LOCK_NAME).exists():
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EngineError as failure:
        say(str(failure))
        sys.exit(1)
