"""Packages of dpkg, rpm and conda."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any, Dict, Iterator

from reprobuild_portable.capture.files import _path, _read, _scan, _text
from reprobuild_portable.capture.model import Context, GaveUpError, Taken
from reprobuild_portable.capture.processes import _program, _run
from reprobuild_portable.secrets.redact import redact, strip_credentials


def take_dpkg(context: Context) -> Taken:
    """Capture Debian's packages as `apt list --installed` prints them.

    The source is the files of dpkg and apt.
    """
    status = _read("/var/lib/dpkg/status", 1 << 28)
    if not status:
        raise GaveUpError("not-there")
    automatic = {
        (fields["Package"], fields["Architecture"])
        for fields in _split_paragraphs(_read("/var/lib/apt/extended_states", 1 << 26), "Auto-Installed")
        if fields["Auto-Installed"] == "1"
    }
    packages = list(_split_paragraphs(status, "Version", "Status"))
    native = next((fields["Architecture"] for fields in packages if fields["Package"] == "dpkg"), "")
    rows = []
    for fields in packages:
        if fields["Status"].split()[2:] != ["installed"]:
            continue
        name, architecture = fields["Package"], fields["Architecture"]
        is_automatic = (name, native if architecture == "all" else architecture) in automatic
        mark = "[installed,automatic]" if is_automatic else "[installed]"
        rows.append((name, architecture, f"{name}/now {fields['Version']} {architecture} {mark}"))
    lists = [_index_date(path.path) for path in _scan("/var/lib/apt/lists") if path.name.endswith("Release")]
    facts = {
        "packages": len(rows),
        "native": native,
        "lists": sorted(lists, key=lambda apt_list: str(apt_list["file"])),
    }
    return Taken(facts, {"apt-packages.txt": "".join(row + "\n" for _, _, row in sorted(rows)).encode()})


def _split_paragraphs(data: bytes, *names: str) -> Iterator[Dict[str, str]]:
    """Yield name, architecture and some other fields of each paragraph.

    A field that is missing is empty. The file may have megabytes: plain search is ten times as fast as a
    pattern.
    """
    for block in data.decode("utf-8", "replace").split("\n\n"):
        text = f"\n{block}\n"
        fields = {}
        for name in ("Package", "Architecture", *names):
            start = text.find(f"\n{name}:") + len(name) + 2
            fields[name] = text[start : text.find("\n", start)].strip(" ") if start > len(name) + 1 else ""
        yield fields


def _index_date(path: str) -> Dict[str, Any]:
    head = _text(path, 4096)
    fields = dict(re.findall(r"(?m)^(Origin|Suite|Codename|Date): *(\S.*?) *$", head))
    fetched = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(os.stat(path).st_mtime))
    return {
        "file": redact(os.path.basename(path)),
        "dated": fetched,
        **{k.lower(): v for k, v in fields.items()},
    }


RPM_FOLDERS = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")  # of its database, in older and newer systems


def take_rpm(context: Context) -> Taken:
    """Capture the packages of rpm, with its own program.

    Its database has a format for each release.
    """
    program = _program("rpm", context)
    if not program or not any(map(os.path.isdir, RPM_FOLDERS)):
        raise GaveUpError("not-there")
    rows = (
        _run([program, "-qa", "--qf", "%{NAME} %{EVR} %{ARCH}\n"], context)
        .decode("utf-8", "replace")
        .split("\n")
    )
    if not any(rows):
        raise GaveUpError("not-there")
    return Taken(
        {"packages": len(rows) - 1}, {"rpm-packages.txt": "\n".join(sorted(rows)).lstrip().encode() + b"\n"}
    )


def take_conda(context: Context) -> Taken:
    """Capture the explicit list of the conda environment.

    The environment is that of this Python, else that of CONDA_PREFIX.
    """
    places = [sys.prefix, context.environ.get("CONDA_PREFIX", "")]
    folder = next(
        (p for p in places if os.path.isabs(p) and os.path.isdir(os.path.join(p, "conda-meta"))), None
    )
    if folder is None:
        raise GaveUpError("not-there")
    rows, broken, withheld = [], [], []
    for entry in sorted(_scan(os.path.join(folder, "conda-meta")), key=lambda entry: entry.name):
        context.left()
        if entry.name.endswith(".json"):
            try:
                record = dict(json.loads(_read(entry.path, 1 << 26)))
            except (ValueError, TypeError) as err:
                broken.append({"location": _path(entry.path), "why": type(err).__name__})
                continue
            url, cut = strip_credentials(str(record.get("url") or record.get("fn") or entry.name))
            if cut:
                withheld.append({"what": "an address", "name": str(record.get("name")), "reason": "secret"})
            digest = record.get("sha256") or record.get("md5")
            rows.append(url + (f"#{digest}" if digest else ""))
    text = "# environment: " + _path(folder) + "\n@EXPLICIT\n" + "".join(row + "\n" for row in rows)
    return Taken(
        {"prefix": _path(folder), "packages": len(rows), "broken": broken},
        {"conda-explicit.txt": text.encode()},
        withheld=withheld,
    )
