"""A program that lists an environment's packages as JSON.

It writes one JSON document to standard output.

    /opt/env/bin/python -I /opt/reprobuild/lib/reprobuild_runtime/freeze.py [SITE-PACKAGES...]

Gives {"python", "implementation", "site_packages": [...], "distributions": [...], "broken": [...], "sources": [...],
"freeze": [...]}. `freeze` is the output of `pip freeze`, by line; `distributions` has everything, also packages that
pip leaves out of that; `broken` has unusable metadata, {"path", "why"}. `direct_url` is as in
https://peps.python.org/pep-0610/ without credentials.

If a file in `sources/` has the origin of a source directory, {"name", "url", "commit", "tree", "path", "subdirectory",
"generated": [GLOB...]}, the git tree id of the directory is computed again: `tree`, to be compared with the recorded
one.
"""

import json
import os
import platform
import sys
import sysconfig
from importlib import metadata
from urllib.parse import unquote, urlsplit

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # it is run by its path

from reprobuild_runtime import freezeline, settings
from reprobuild_runtime.gittree import tree_id

# ruff: noqa: TID251  the environment says where sources/ is

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Tuple

# Packages that `pip freeze` leaves out without --all (pip, commands/freeze.py).
_HIDDEN = {"pip", "python", "wsgiref", "argparse"}
if sys.version_info < (3, 12):
    _HIDDEN |= {"setuptools", "distribute", "wheel"}


def site_packages() -> "List[str]":
    """Return the directories that this environment installs into."""
    paths = sysconfig.get_paths()
    return sorted({os.path.realpath(paths[name]) for name in ("purelib", "platlib")})


def installed(
    folders: "List[str]", sources: "Dict[str, Any]"
) -> "Tuple[List[Dict[str, Any]], List[Dict[str, str]]]":
    """Return the distributions by name, and unusable metadata.

    They are those in the given directories.
    """
    known = {freezeline.canonical_name(name): source for name, source in sources.items()}
    distributions, broken = [], []
    for dist, egg_link in _distributions(folders):
        try:
            distributions.append(_describe(dist, egg_link, known))
        except Exception as err:
            path = str(getattr(dist, "_path", dist.locate_file("")))
            broken.append({"path": path, "why": f"{type(err).__name__}: {err}"})
    distributions.sort(key=lambda entry: (entry["name"].lower(), entry["version"], entry["location"]))
    return distributions, sorted(broken, key=lambda entry: entry["path"])


def _distributions(folders: "List[str]") -> "Iterator[Tuple[metadata.Distribution, Optional[str]]]":
    """Yield each distribution, with the directory of its `.egg-link`.

    `setup.py develop` leaves such links.
    """
    for place in folders:
        for dist in metadata.distributions(path=[place]):
            yield dist, None
        names = sorted(os.listdir(place)) if os.path.isdir(place) else []
        for name in names:
            if name.endswith(".egg-link"):
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    target = file.readline().strip()
                for dist in metadata.distributions(path=[target]):
                    if _is_same_name(dist.metadata["Name"] or "", name[: -len(".egg-link")]):
                        yield dist, target


def _is_same_name(name: str, other: str) -> bool:
    return freezeline.canonical_name(name) == freezeline.canonical_name(other)


def _describe(
    dist: "metadata.Distribution", egg_link: "Optional[str]", known: "Dict[str, Any]"
) -> "Dict[str, Any]":
    name, version = dist.metadata["Name"], dist.metadata["Version"]
    if not name or not version:
        raise ValueError("its metadata gives no name or no version")
    source = known.get(freezeline.canonical_name(name))
    direct_url = _direct_url(dist)
    path = egg_link
    if direct_url is not None and (direct_url.get("dir_info") or {}).get("editable"):
        path = unquote(urlsplit(direct_url["url"]).path)
    if path is not None:
        line = freezeline.editable(name, version, os.path.abspath(path), source)
    elif direct_url is not None:
        line = freezeline.direct(name, direct_url)
    else:
        line = freezeline.pinned(name, version)
    return {
        "name": name,
        "version": version,
        "freeze": line,
        "editable": path is not None,
        "location": str(dist.locate_file("")),
        "direct_url": direct_url,
        "source": source,
        "tree": _tree(source),
    }


def _direct_url(dist: "metadata.Distribution") -> "Optional[Dict[str, Any]]":
    text = dist.read_text("direct_url.json")
    if not text:
        return None
    direct_url: "Dict[str, Any]" = json.loads(text)
    vcs = (direct_url.get("vcs_info") or {}).get("vcs", "")
    direct_url["url"] = freezeline.without_credentials(str(direct_url["url"]), vcs)
    return direct_url


def _tree(source: "Optional[Dict[str, Any]]") -> "Optional[str]":
    if source is None or not os.path.isdir(source["path"]):
        return None
    return tree_id(source["path"], source.get("generated") or ())


def freeze_lines(distributions: "List[Dict[str, Any]]") -> "List[str]":
    """Return the lines of `pip freeze`, without pip's own tools.

    They are the first of each name.
    """
    first: "Dict[str, str]" = {}
    for entry in distributions:
        first.setdefault(freezeline.canonical_name(entry["name"]), entry["freeze"])
    return [line for name, text in first.items() if name not in _HIDDEN for line in text.split("\n")]


def _sources() -> "Dict[str, Any]":
    recorded = os.path.join(settings.folder(os.environ), "sources")
    sources: "Dict[str, Any]" = {}
    for name in sorted(os.listdir(recorded)) if os.path.isdir(recorded) else ():
        with open(os.path.join(recorded, name), encoding="utf-8") as file:
            facts = json.load(file)
        sources[facts["name"]] = facts
    return sources


def main(argv: "List[str]") -> int:
    """Print the document; always return 0."""
    folders = argv or site_packages()
    sources = _sources()
    distributions, broken = installed(folders, sources)
    document = {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "site_packages": folders,
        "distributions": distributions,
        "broken": broken,
        "sources": [
            {"name": name, "path": source["path"], "tree": _tree(source)}
            for name, source in sorted(sources.items())
        ],
        "freeze": freeze_lines(distributions),
    }
    print(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
