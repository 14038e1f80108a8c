"""A hostile name, version, address or marker of a package in a lock: the package is asked for, not lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprobuild.snapshot.importers.import_snapshot import import_into
from reprobuild.snapshot.read import read_snapshot

# Each is a comment, an option, a marker, an address or another line to pip if it stands in a list as it is.
HOSTILE = ["# x", "x #", "--pre #", "-r x", "x\ny==1", "x ; y", "x @ https://h.example/y #", "x\u2028y", ""]
KINDS = ("name", "version", "git", "file", "marker", "path")
COMMIT = "a" * 40


def value(kind: str, changed: str, text: str) -> str:
    """Return a hostile text in the place of a part, or the part as it should be."""
    plain = {
        "name": "pkg", "version": "1.0", "git": "https://h.example/r", "file": "https://h.example/p-1.whl",
        "marker": "python_version > '3.8'", "path": "./lib",
    }  # fmt: skip
    if kind != changed:
        return json.dumps(plain[kind])
    if kind in ("git", "file") and text:
        return json.dumps(f"{plain[kind]} {text}")
    return json.dumps(f"./lib {text}" if kind == "path" else text)


def origin_of(changed: str) -> str:
    return changed if changed in ("git", "file", "path") else "version"


def poetry(changed: str, text: str) -> str:
    kind, origin = origin_of(changed), {"git": "git", "file": "url", "path": "directory"}
    source = ""
    if kind in origin:
        source = (
            f'[package.source]\ntype = "{origin[kind]}"\nurl = {value(kind, changed, text)}\n'
            f'resolved_reference = "{COMMIT}"\n'
        )
    return (
        f"[[package]]\nname = {value('name', changed, text)}\nversion = {value('version', changed, text)}\n"
        f"markers = {value('marker', changed, text)}\n{source}"
        f'[[package]]\nname = "other"\nversion = "2"\n'
    )


def pdm(changed: str, text: str) -> str:
    kind, origin = origin_of(changed), {"git": "git", "file": "url", "path": "path"}
    source = (
        f"{origin[kind]} = {value(kind, changed, text)}\nrevision = '{COMMIT}'\n" if kind in origin else ""
    )
    return (
        f"[[package]]\nname = {value('name', changed, text)}\nversion = {value('version', changed, text)}\n"
        f"marker = {value('marker', changed, text)}\n{source}"
        f'[[package]]\nname = "other"\nversion = "2"\n'
    )


def pipfile(changed: str, text: str) -> str:
    kind = origin_of(changed)
    version = json.dumps("==" + json.loads(value("version", changed, text)))
    return (
        f'{{"_meta": {{}}, "default": {{{value("name", changed, text)}: {{"markers": {value("marker", changed, text)}, '
        f'"ref": "{COMMIT}", "{kind}": {version if kind == "version" else value(kind, changed, text)}}}, '
        '"other": {"version": "==2"}}}'
    )


def inspect(changed: str, text: str) -> str:
    metadata = f'"name": {value("name", changed, text)}, "version": {value("version", changed, text)}'
    direct = {
        "git": f'{{"url": {value("git", changed, text)}, "vcs_info": {{"vcs": "git", "commit_id": "{COMMIT}"}}}}',
        "file": f'{{"url": {value("file", changed, text)}, "archive_info": {{"hash": ""}}}}',
    }.get(changed, "{}")
    return (
        f'{{"installed": [{{"metadata": {{{metadata}}}, "direct_url": {direct}}}, '
        '{"metadata": {"name": "other", "version": "2"}}]}'
    )


def pixi(changed: str, text: str) -> str:
    address = {"git": value("git", changed, text), "path": value("path", changed, text)}.get(
        changed, value("file", changed, text)
    )
    address = f'"git+{address[1:-1]}#{COMMIT}"' if changed == "git" else address
    return (
        (
            '{"environments": {"default": {"packages": {"linux-64": [{"pypi": ADDRESS}, '
            '{"pypi": "https://h.example/o"}]}}}, '
            '"packages": [{"pypi": ADDRESS, "name": NAME, "version": VERSION}, '
            '{"pypi": "https://h.example/o", "name": "other"}]}'
        )
        .replace("ADDRESS", address)
        .replace("NAME", value("name", changed, text))
        .replace("VERSION", value("version", changed, text))
    )


FORMATS = {
    "poetry.lock": (poetry, KINDS), "pdm.lock": (pdm, KINDS),
    "Pipfile.lock": (pipfile, KINDS), "pip-inspect.json": (inspect, ("name", "version", "git", "file")),
    "pixi.lock": (pixi, ("name", "git", "file", "path")),
}  # fmt: skip


def means_more(file: str, kind: str) -> bool:
    """Return whether an absent part is no hostile one: it has another meaning, or its own reason."""
    return kind in ("marker", "git", "file", "path") or file in ("pip-inspect.json", "pixi.lock")


CASES = [
    (file, kind, text) for file, (_, kinds) in FORMATS.items() for kind in kinds for text in HOSTILE
    if text or not means_more(file, kind)
]  # fmt: skip


@pytest.mark.parametrize(("file", "kind", "text"), CASES)
def test_a_package_with_a_hostile_part_is_asked_for(file: str, kind: str, text: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(FORMATS[file][0](kind, text))
    facts = import_into(tmp_path / file, tmp_path / "out")
    rows = (tmp_path / "out/requirements.txt").read_text().splitlines()
    assert [row.partition(" ")[0] for row in rows[1:]] in (["other==2"], ["other"]), rows
    assert rows[0].startswith("(")
    assert rows[0].endswith("is not valid)") or "its directory has" in rows[0]
    assert any("is not valid" in entry.reason or "its directory" in entry.reason for entry in facts.unused)

    read_snapshot(tmp_path / "out")


@pytest.mark.parametrize("file", FORMATS)
def test_a_package_without_a_hostile_part_is_imported(file: str, tmp_path: Path) -> None:
    for kind in FORMATS[file][1]:
        folder = tmp_path / kind
        folder.mkdir()
        (folder / file).write_text(FORMATS[file][0]("none" if kind not in ("git", "file") else kind, "").replace(
            '""', json.dumps({"git": "https://h.example/r", "file": "https://h.example/p-1.whl"}.get(kind, ""))
        ))  # fmt: skip
        import_into(folder / file, folder / "out")
        rows = (folder / "out/requirements.txt").read_text().splitlines()
        assert rows[0].startswith(("pkg==1.0", "pkg @ ")), rows


@pytest.mark.parametrize(
    "address",
    ["# https://h.example/c/linux-64/numpy-1.0-0.conda", "-x", "https://h.example/linux-64/a-1-0.conda # y",
     "https://h.example/linux-64/a-1-0.conda\n# y", "https://h.example/linux-64/a-1-0.conda#zz", "numpy @ x"],
)  # fmt: skip
def test_a_package_of_conda_with_a_hostile_address_is_asked_for(address: str, tmp_path: Path) -> None:
    plain = "https://h.example/c/linux-64/zlib-1-0.conda"
    rows = [{"conda": address}, {"conda": plain}]
    document = {"environments": {"default": {"packages": {"linux-64": rows}}}, "packages": []}
    (tmp_path / "pixi.lock").write_text(json.dumps(document))
    facts = import_into(tmp_path / "pixi.lock", tmp_path / "out")
    assert (tmp_path / "out/conda-explicit.txt").read_text() == f"@EXPLICIT\n{plain}\n"
    field, reason = "environments.default.packages.linux-64[0]", "its address or its hash is not valid"
    assert (field, reason) in [(entry.field, entry.reason) for entry in facts.unused]
    assert (tmp_path / "out/requirements.txt").read_text() == (
        f"({field} of pixi.lock is not imported: {reason})\n"
    )
