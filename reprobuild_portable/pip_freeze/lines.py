"""The line that `pip freeze` prints for a distribution.

The functions are pure, and take its metadata. Their source is pip: `operations/freeze.py`,
`utils/direct_url_helpers.py`, `models/direct_url.py` and `vcs/git.py`.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Optional
from urllib.parse import urlsplit, urlunsplit

from reprobuild_portable.pip_freeze.pins import pinned

_VARIABLES = re.compile(r"\$\{[A-Za-z0-9-_]+\}(:\$\{[A-Za-z0-9-_]+\})?")


def without_credentials(url: str, vcs: str = "") -> str:
    """Return the URL without user and password.

    `git@` and variables (PEP 610) stay.
    """
    split = urlsplit(url)
    user, at, host = split.netloc.rpartition("@")
    if not at or (vcs == "git" and user == "git") or _VARIABLES.fullmatch(user):
        return url
    return urlunsplit((split.scheme, host, split.path, split.query, split.fragment))


def direct(name: str, direct_url: Dict[str, Any]) -> str:
    """Return `name @ URL` of an installation that is not editable.

    `direct_url` is the content of its `direct_url.json`.
    """
    url, fragments = str(direct_url["url"]), []
    if "vcs_info" in direct_url:
        info = direct_url["vcs_info"]
        url = f"{info['vcs']}+{url}@{info['commit_id']}"
    elif (direct_url.get("archive_info") or {}).get("hash"):
        fragments.append(str(direct_url["archive_info"]["hash"]))
    if direct_url.get("subdirectory"):
        fragments.append(f"subdirectory={direct_url['subdirectory']}")
    return f"{name} @ {url}" + ("#" + "&".join(fragments) if fragments else "")


def editable(name: str, version: str, path: str, source: Optional[Dict[str, Any]]) -> str:
    """Return the line of an editable installation.

    It has the recorded origin, else the directory below a comment.
    """
    if source is None:
        return f"# Editable install with no version control ({pinned(name, version)})\n-e {path}"
    if not source["url"]:
        return f"# Editable Git install with no remote ({pinned(name, version)})\n-e {path}"
    url = _pip_url(str(source["url"]))
    line = f"-e git+{url}@{source['commit']}#egg={name.replace('-', '_')}"
    return line + (f"&subdirectory={source['subdirectory']}" if source.get("subdirectory") else "")


def _pip_url(url: str) -> str:
    """Return git's address as pip writes it.

    `git@host:path` becomes `ssh://git@host/path`.
    """
    url = url[4:] if url.startswith("git+") else url
    if re.match(r"\w+://", url):
        return without_credentials(url, "git")
    short = re.fullmatch(r"(\w+@)?([^/:]+):([^:]*)", url)
    if short:
        return f"ssh://{short[1] or ''}{short[2]}/{short[3].lstrip('/')}"
    return "file://" + url if url.startswith("/") else url
