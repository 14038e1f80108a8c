"""The file requirements.txt, as `pip freeze` writes it."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Dict, List, Mapping

from reprobuild_portable.capture.files import _path, _relative
from reprobuild_portable.pip_freeze.pins import canonical_name, pinned

# `pip freeze` leaves these out without --all (pip, commands/freeze.py).
_HIDDEN = {"pip", "python", "wsgiref", "argparse"} | (
    {"setuptools", "distribute", "wheel"} if sys.version_info < (3, 12) else set()
)


def _format_freeze(entries: List[Dict[str, Any]], lines: Mapping[str, str]) -> bytes:
    """Return requirements.txt as `pip freeze` writes it.

    `lines` has the lines of editable installs, by name.
    """
    out = []
    for entry in entries:
        name = entry.get("name", "")
        if name and canonical_name(name) not in _HIDDEN:
            line = lines.get(name) or _line(entry)
            out.append(line if line.isprintable() or line.startswith("#") else f"# {_path(line)}")
    return "".join(line + "\n" for line in out).encode("utf-8", "backslashreplace")


def _pin(entry: Dict[str, Any]) -> str:
    return pinned(entry["name"], entry["version"])


def _line(entry: Dict[str, Any]) -> str:
    """Return the line of one distribution.

    The source is pip: operations/freeze.py and models/direct_url.py.
    """
    origin = entry["origin"]
    if origin is None:
        return _pin(entry)
    if origin.get("editable"):
        return f"# Editable install with no version control ({_pin(entry)})\n-e {_path(origin['path'])}"
    url, marks = origin["url"], []
    if "commit" in origin:
        url = f"{origin['kind']}+{url}@{origin['commit']}"
    elif origin.get("sha256"):
        marks.append(f"sha256={origin['sha256']}")
    if origin.get("subdirectory"):
        marks.append(f"subdirectory={origin['subdirectory']}")
    return f"{entry['name']} @ {url}" + ("#" + "&".join(marks) if marks else "")


def _format_bare_line(entry: Dict[str, Any], problem: str) -> str:
    """Return the line of an editable install without a commit.

    With a commit, a build could use the install without its changes.
    """
    return f"# Editable install whose {problem} ({_pin(entry)})\n-e {_path(entry['origin']['path'])}"


def _editable_line(entry: Dict[str, Any], top: str, record: Dict[str, Any]) -> str:
    """Return the line of an editable install.

    It names the commit that a remote has, the start of NAME.diff. pip would name the commit that is checked
    out, even if no remote has it.
    """
    folder = entry["origin"]["path"]
    urls = {remote["name"]: remote["url"] for remote in record["remotes"]}
    url = urls.get(record["base_remote"]) or urls.get("origin") or next(iter(urls.values()), None)
    if record["diff"]["reason"] != "done":
        return _format_bare_line(entry, "changes are not in a diff")
    if url is None or record["head"] is None or not _format_remote(url):
        return f"# Editable Git install with no remote ({_pin(entry)})\n-e {_path(folder)}"
    inside = _relative(os.path.realpath(folder), top)
    egg = re.sub(r"[^A-Za-z0-9.]+", "_", entry["name"])
    mark = "" if inside == "." else f"&subdirectory={inside}"
    return f"-e git+{_format_remote(url)}@{record['diff']['from']}#egg={egg}{mark}"


def _format_remote(url: str) -> str:
    """Return a remote's address as pip writes it.

    `git@host:path` becomes `ssh://git@host/path`. The result is empty for an address of another form.
    """
    if re.match(r"\w+://\S+$", url):
        return url
    short = re.match(r"(\w+@)?([^/:\s]+):([^:\s]*)$", url)
    if short:
        return f"ssh://{short.group(1) or ''}{short.group(2)}/{short.group(3).lstrip('/')}"
    return "file://" + url if re.match(r"/\S*$", url) else ""
