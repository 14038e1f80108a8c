"""The line that `pip freeze` prints for a distribution: pure functions of its metadata.

Read in pip's source: `operations/freeze.py`, `utils/direct_url_helpers.py`, `models/direct_url.py` and
`vcs/git.py`.
"""

import re
from urllib.parse import urlsplit, urlunsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional

_VERSION = re.compile(  # https://packaging.python.org/en/latest/specifications/version-specifiers/, appendix
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>\d*))?"
    r"(?P<post>-(?P<post_n1>\d+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_n2>\d*))?"
    r"(?P<dev>[-_.]?dev[-_.]?(?P<dev_n>\d*))?(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.ASCII,
)
_PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_VARIABLES = re.compile(r"\$\{[A-Za-z0-9-_]+\}(:\$\{[A-Za-z0-9-_]+\})?")


def canonical_name(name: str) -> str:
    """Return the name that all spellings of one distribution share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def normal_version(text: str) -> "Optional[str]":
    """Return the version in its normal form, None where it is not one by the specification."""
    found = _VERSION.fullmatch(text.strip().lower())
    if found is None:
        return None
    part = found.groupdict()
    out = f"{int(part['epoch'])}!" if part["epoch"] and int(part["epoch"]) else ""
    out += ".".join(str(int(number)) for number in part["release"].split("."))
    if part["pre"]:
        out += _PRE.get(part["pre"], part["pre"]) + str(int(part["pre_n"] or 0))
    if part["post"]:
        out += f".post{int(part['post_n1'] or part['post_n2'] or 0)}"
    if part["dev"]:
        out += f".dev{int(part['dev_n'] or 0)}"
    if part["local"]:
        pieces = re.split(r"[-_.]", part["local"])
        out += "+" + ".".join(str(int(piece)) if piece.isdigit() else piece for piece in pieces)
    return out


def pinned(name: str, version: str) -> str:
    """Return `name==version`, with three equals signs where the version is not by the specification."""
    normal = normal_version(version)
    return f"{name}=={normal}" if normal is not None else f"{name}==={version}"


def without_credentials(url: str, vcs: str = "") -> str:
    """Return the URL without user and password; `git@` and variables (PEP 610) stay."""
    split = urlsplit(url)
    user, at, host = split.netloc.rpartition("@")
    if not at or (vcs == "git" and user == "git") or _VARIABLES.fullmatch(user):
        return url
    return urlunsplit((split.scheme, host, split.path, split.query, split.fragment))


def direct(name: str, direct_url: "Dict[str, Any]") -> str:
    """Return `name @ URL`, for what `direct_url.json` says of an installation that is not editable."""
    url, fragments = str(direct_url["url"]), []
    if "vcs_info" in direct_url:
        info = direct_url["vcs_info"]
        url = f"{info['vcs']}+{url}@{info['commit_id']}"
    elif (direct_url.get("archive_info") or {}).get("hash"):
        fragments.append(str(direct_url["archive_info"]["hash"]))
    if direct_url.get("subdirectory"):
        fragments.append(f"subdirectory={direct_url['subdirectory']}")
    return f"{name} @ {url}" + ("#" + "&".join(fragments) if fragments else "")


def editable(name: str, version: str, path: str, source: "Optional[Dict[str, Any]]") -> str:
    """Return the line of an editable installation: its recorded origin, else its folder below a comment."""
    if source is None:
        return f"# Editable install with no version control ({pinned(name, version)})\n-e {path}"
    if not source["url"]:
        return f"# Editable Git install with no remote ({pinned(name, version)})\n-e {path}"
    url = _pip_url(str(source["url"]))
    line = f"-e git+{url}@{source['commit']}#egg={name.replace('-', '_')}"
    return line + (f"&subdirectory={source['subdirectory']}" if source.get("subdirectory") else "")


def _pip_url(url: str) -> str:
    """Return git's address as pip writes it: `git@host:path` becomes `ssh://git@host/path`."""
    url = url[4:] if url.startswith("git+") else url
    if re.match(r"\w+://", url):
        return without_credentials(url, "git")
    short = re.fullmatch(r"(\w+@)?([^/:]+):([^:]*)", url)
    if short:
        return f"ssh://{short[1] or ''}{short[2]}/{short[3].lstrip('/')}"
    return "file://" + url if url.startswith("/") else url
