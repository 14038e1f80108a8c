"""Values of any length in imported files: each is refused at a count, before work that grows faster than it."""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import SnapshotError
from reprobuild.infra.untrusted.yaml_documents import BoundedLoader, load_yaml
from reprobuild.snapshot import text
from reprobuild.snapshot.importers import (
    captured_content,
    documents,
    draft,
    list_allowance,
    poetry_markers,
    sacred,
    slurm,
    uv_lock,
)
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.import_snapshot import import_into
from reprobuild.snapshot.importers.repositories import add_repository
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import load_toml
from reprobuild.snapshot.importers.variables import add_variables
from reprobuild.snapshot.parsers import env


def test_the_directory_of_a_project_is_matched_in_one_way() -> None:
    # One way for each text: without a slash, a component cannot begin anew.
    assert "/?)+" not in uv_lock._PLAIN.pattern
    for place in (".", "a", "a/", "a/b-c/d.e", "_a/1"):
        assert uv_lock._PLAIN.fullmatch(place)
    for place in ("", "/a", "a//b", "-a", "a!", "a/.b", "./a"):
        assert not uv_lock._PLAIN.fullmatch(place)
    assert not uv_lock._PLAIN.fullmatch("a" * 5000 + "!")  # it would last for ever


@pytest.mark.parametrize(("length", "is_read"), [(200, True), (201, False), (1 << 20, False)])
def test_a_long_version_of_python_is_not_matched(length: int, is_read: bool) -> None:
    import_draft = draft.Draft("a run", "run.json")
    import_draft.add_python("3.11.4 ".ljust(length, "x"), "python", "Linux-" + "x86_64" * (1 << 16) + "\n")
    assert import_draft.has("python.txt") is is_read
    if not is_read:
        (unused,) = unused_fields(import_draft)
        assert unused == ("python", "it has more than 200 characters")


def unused_fields(import_draft: draft.Draft) -> list[tuple[str, str]]:
    import_draft.add("requirements.txt", "click==8.1.7", "a line")
    return [(entry.field, entry.reason) for entry in import_draft.finish().facts.unused]


def test_a_long_line_is_refused_before_it_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def strip(line: str) -> tuple[str, bool]:
        searched.append(len(line))
        return line, False

    monkeypatch.setattr("reprobuild_portable.secrets.strip_credentials", strip)
    import_draft = draft.Draft("a list", "requirements.txt")
    import_draft.add("requirements.txt", "a" * 4001, "line 1")
    import_draft.add_row(" " * (1 << 20) + "==" * 4000, "line 2")
    reason = "it has more than 1000 characters"
    assert unused_fields(import_draft) == [("line 1", reason), ("line 2", reason)]
    assert searched == [len("click==8.1.7")]


def test_a_marker_that_many_packages_share_is_short() -> None:
    marker = "sys_platform == 'linux' or " * 5000
    packages = [{"name": "b", "dependencies": {"a": {"version": "1", "markers": marker}}}]
    assert [len(shared) for shared in poetry_markers.infer_markers(packages, {"project": {}}).values()] == [
        4001
    ]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (
            "pixi.lock",
            "environments: {default: {packages: {linux-64: [{pypi: LONG}, {conda: LONG}, {conda: SHORT}]}}}\n",
        ),
        (
            "conda-lock.yml",
            "package: [{name: a, manager: pip, platform: linux-64, url: LONG}, "
            "{name: b, manager: conda, platform: linux-64, url: LONG}, {platform: linux-64, url: SHORT}]\n",
        ),
    ],
)
def test_a_long_address_is_refused_before_it_is_searched(file: str, content: str, tmp_path: Path) -> None:
    address = "https://conda.example.org/linux-64/"
    content = content.replace("LONG", address + "a" * 4000).replace("SHORT", f"{address}a-1-0.conda")
    (tmp_path / file).write_text(content)
    facts = import_into(tmp_path / file, tmp_path / "out")
    assert [entry.reason for entry in facts.unused if "characters" in entry.reason] == [
        "it has more than 4000 characters"
    ] * 2


def test_a_long_field_is_not_shown() -> None:
    import_draft = draft.Draft("a run", "run.json")
    import_draft.leave("x" * 501, "a reason")
    assert unused_fields(import_draft) == [("(501 characters: too long to show)", "a reason")]


def lock_of(*packages: str) -> bytes:
    return ('version = 1\nrequires-python = ">=3.11"\n' + "".join(packages)).encode()


def test_a_marker_that_is_too_hard_for_uv_ends_at_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uv_lock, "_MOST_MEMORY", 64 << 20)
    pairs = " or ".join(f"(extra == 'a{number}' and extra == 'b{number}')" for number in range(40))
    (tmp_path / "uv.lock").write_bytes(
        lock_of(
            '[[package]]\nname = "job"\nversion = "0"\nsource = { virtual = "." }\n'
            f'dependencies = [{{ name = "foo", marker = "{pairs}" }}]\n',
            '[[package]]\nname = "foo"\nversion = "1.0"\nsource = { registry = "https://index.example.org/simple" }\n'
            f'sdist = {{ url = "https://index.example.org/foo-1.0.tar.gz", hash = "sha256:{"0" * 64}" }}\n',
        )
    )
    with pytest.raises(SnapshotError, match=r"uv cannot read it: .*memory allocation") as err:
        import_into(tmp_path / "uv.lock", tmp_path / "out")
    assert err.value.hint == "in the project, `uv lock` writes it again"


def test_a_lock_of_very_many_projects_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uv_lock, "_MOST_PROJECTS", 2)
    project = '[[package]]\nname = "p{0}"\nversion = "1"\nsource = {{ editable = "p{0}" }}\n'
    (tmp_path / "uv.lock").write_bytes(lock_of(*(project.format(number) for number in range(3))))
    with pytest.raises(SnapshotError, match=r"uv\.lock has more than 2 projects in directories") as err:
        import_into(tmp_path / "uv.lock", tmp_path / "out")
    assert err.value.hint == (
        "import the lock of a smaller workspace, or a requirements.txt that `uv export` writes"
    )


@pytest.mark.parametrize("name", ["uv.lock", "pyproject.toml", "a/pyproject.toml", "a/uv.lock/b"])
def test_a_project_in_the_place_of_a_file_is_not_written(name: str, tmp_path: Path) -> None:
    package = '[[package]]\nname = "{}"\nversion = "1"\nsource = {{ editable = "{}" }}\n'
    lock = lock_of(package.format("p", "a"), package.format("q", name))
    (tmp_path / "uv.lock").write_bytes(lock)
    import_into(tmp_path / "uv.lock", tmp_path / "out")
    assert f"-e {tmp_path}/{name}\n" in (tmp_path / "out/requirements.txt").read_text()


def test_the_repositories_of_a_run_are_looked_for_a_bounded_number_of_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sacred, "_MOST_REPOSITORIES", 2)
    numbers = range(3)
    experiment = {
        "dependencies": [f"p{number}==1" for number in numbers],
        "repositories": [
            {"url": f"https://git.example.org/p{number}", "commit": "a" * 40} for number in numbers
        ],
    }
    (tmp_path / "run.json").write_text(json.dumps({"experiment": experiment, "host": {}, "command": "main"}))
    facts = import_into(tmp_path, tmp_path / "out")
    left = [(field.field, field.reason) for field in facts.unused if "repositories" in field.field]
    assert left == [("experiment.repositories[2]", "a run with more than 2 repositories")]
    assert (tmp_path / "out/requirements.txt").read_text().splitlines()[1:] == [
        f"-e git+https://git.example.org/p1@{'a' * 40}#egg=p1",
        "p2==1",
    ]


def test_a_huge_list_of_variables_of_slurm_is_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value of many rows is joined in quadratic time: ten megabytes took minutes."""
    monkeypatch.setattr(slurm, "_assignments", lambda _: pytest.fail("the rows were joined"))
    (tmp_path / "job.json").write_text('{"jobs": [{"time": {}}], "meta": {}}')
    (tmp_path / "env.txt").write_text("Environment used for 1\n--\nA=\n" + f"{'x' * 1300}\n" * 2000)
    with pytest.raises(SnapshotError, match=r"env\.txt: the variables have more than the 2 MiB") as err:
        import_into(tmp_path, tmp_path / "out")
    assert err.value.hint == "write them again where the job runs: `env -0 > env.nul`"


@pytest.mark.parametrize(
    ("file", "content", "unit"),
    [
        ("wandb-metadata.json", '{"x": [%s 1]}', '{"": {}},'),
        ("wandb-metadata.json", '{"x": [%s 1]}', "[],"),
        ("wandb-metadata.json", '{"x": [%s 1]}', "0,"),
        ("poetry.lock", "x = [%s 1]\n", "{},"),
        ("wandb-metadata.json", '{"x": [%s 1]}', '"{",'),
    ],
)
def test_a_document_of_very_many_values_is_refused(
    file: str, content: str, unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("it was read")

    monkeypatch.setattr(text, "VALUES", 500)
    monkeypatch.setattr("json.loads", refuse)
    monkeypatch.setattr("msgspec.toml.decode", refuse)
    (tmp_path / file).write_text(content.replace("%s", unit * 501))
    with pytest.raises(SnapshotError, match="there are more than 500 values in it") as err:
        import_into(tmp_path, tmp_path.parent / f"{tmp_path.name}-out")
    assert err.value.hint == "look at what wrote it; a lock or the metadata of a run has some thousands"


def test_the_fields_of_a_document_of_very_many_values_are_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.json").write_text("{" + ",".join(f'"k{number}": 1' for number in range(600)) + "}")
    source = ImportSource(tmp_path, {"run.json": tmp_path / "run.json"}, tmp_path)
    monkeypatch.setattr(text, "VALUES", 500)
    assert source.fields("run.json") == frozenset()


def test_variables_larger_than_a_process_can_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(*_: object) -> None:
        pytest.fail("the rules judged a value")

    monkeypatch.setattr("reprobuild_portable.secrets.holds_secret", judge)
    monkeypatch.setattr("reprobuild_portable.secrets.secret_variable", judge)
    large = {f"V{number}": "x" * (1 << 16) for number in range(33)}
    rows = [f"{name}={value}" for name, value in large.items()]
    for read in (
        lambda: add_variables(draft.Draft("a run", "run.json"), large, "ENV"),
        lambda: env.parse("\n".join(rows).encode(), "env.txt"),
        lambda: env.parse("\0".join(rows).encode(), "env.txt"),
        lambda: env.parse_exact("\0".join(rows).encode(), "env.nul"),
    ):
        with pytest.raises(
            SnapshotError, match=r"(run\.json|env\.(txt|nul)): the variables have more than"
        ) as err:
            read()
        assert err.value.hint == "write them again where the job runs: `env -0 > env.nul`"


def test_a_huge_yaml_document_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "load_yaml", lambda *_: pytest.fail("it was read"))
    (tmp_path / "conda-lock.yml").write_bytes(b"a: " + b"x " * (4 << 20))
    with pytest.raises(SnapshotError, match="more than the 8 MiB that YAML may have") as err:
        import_into(tmp_path / "conda-lock.yml", tmp_path / "out")
    assert err.value.hint == "look at what wrote it; or export it again"


def test_many_yaml_documents_are_refused_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "requirements.txt").write_text("click==8.1.7\n")
    for number in range(3):
        (run / f"{number}.dvc").write_text("outs: []\n" + "#" * (6 << 20))
    with pytest.raises(
        SnapshotError, match=r"2\.dvc: with it, the YAML of this import has more than 16 MiB"
    ) as err:
        import_into(run, tmp_path / "out")
    assert err.value.hint == (
        "import a directory without those YAML files and `.dvc` files that the run does not need"
    )
    (run / "2.dvc").unlink()
    assert import_into(run, tmp_path / "out").unused == ()


def test_a_part_of_a_source_has_the_bound_of_the_whole(tmp_path: Path) -> None:
    source = ImportSource(tmp_path, {}, tmp_path)
    assert [source.below("a").count_yaml(2), source.count_yaml(3), source.below("b").count_yaml(0)] == [
        2,
        5,
        5,
    ]


def captured_twice(folder: Path, second: str) -> Path:
    """Return a directory with an environment, and another file under the same name in another case."""
    folder.mkdir()
    (folder / "Environment.yml").write_text("dependencies:\n  - zlib=1.3=h0\n")
    (folder / "environment.yml").write_text(second)
    return folder


def test_captured_files_of_one_kind_are_searched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The letters of a name can have thousands of cases."""
    cleaned: list[str] = []

    def clean(data: bytes, file: str, _: object) -> captured_content.CleanContent:
        cleaned.append(file)
        return captured_content.CleanContent(data, [])

    monkeypatch.setitem(captured_content._CLEANERS, "environment.yml", clean)
    same = captured_twice(tmp_path / "same", "dependencies:\n  - zlib=1.3=h0\n")
    facts = import_into(same, tmp_path / "out")
    assert [(entry.source, entry.reason) for entry in facts.unused] == [
        ("environment.yml", "the same as Environment.yml")
    ]
    other = captured_twice(tmp_path / "other", "dependencies:\n  - zlib=1.2=h0\n")
    with pytest.raises(SnapshotError, match="are two different files of one kind") as err:
        import_into(other, tmp_path / "out2")
    assert err.value.hint == "keep the one of the environment that ran"
    assert cleaned == ["Environment.yml"] * 2


def test_diffs_and_texts_are_refused_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        archive.writestr("requirements.txt", "click==8.1.7\n")
        for name in ("a.diff", "b.patch", "README"):
            archive.writestr(name, "x" * 500_000)
    monkeypatch.setattr(text, "LIMIT", 1 << 20)
    with pytest.raises(SnapshotError, match=r"run\.zip: its diffs and texts have more than 1 MiB") as err:
        import_into(tmp_path / "run.zip", tmp_path / "out")
    assert (
        err.value.hint == "unpack it, and import it without the large ones: an image depends only on `*.diff`"
    )


def archive_of(folder: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(folder / "run.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return folder / "run.zip"


def test_the_lists_of_an_import_are_refused_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list alone is within the bound on a list: eleven of them took 79 s."""
    monkeypatch.setattr(list_allowance, "MOST_BYTES", 1 << 20)
    rows = "click==8.1.7\n" + f"# {'a' * 3000}\n" * 70
    path = archive_of(
        tmp_path, dict.fromkeys(("apt-packages.txt", "modules.txt", "requirements.txt"), rows * 2)
    )
    with pytest.raises(
        SnapshotError, match=r"requirements\.txt: with it, the lists of this import have more than 1 MiB"
    ) as err:
        import_into(path, tmp_path / "out")
    assert err.value.hint == (
        "unpack it, and import it without the large ones; or take a snapshot where the job runs: "
        "`reprobuild capture -o DIR`"
    )


def test_the_rows_of_all_lists_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules need up to a millisecond for a row, but no time for one that is a hash."""
    monkeypatch.setattr(list_allowance, "MOST_ROWS", 10)
    hashes = "".join(f" \\\n    --hash=sha256:{number:064x}" for number in range(20))
    path = archive_of(
        tmp_path, {"modules.txt": "gcc/12.2\n" * 4, "requirements.txt": f"click==8.1.7{hashes}\n"}
    )
    assert import_into(path, tmp_path / "out").format == "a snapshot in an archive"
    path = archive_of(tmp_path, {"modules.txt": "gcc/12.2\n" * 5, "requirements.txt": "click==8.1.7\n" * 6})
    with pytest.raises(
        SnapshotError, match=r"requirements\.txt: with it, the lists of this import have more than 10 rows"
    ) as err:
        import_into(path, tmp_path / "out2")
    assert err.value.hint == (
        "import it without the lists that an image does not need; a full system has some thousands of packages"
    )


@pytest.mark.parametrize(
    ("second", "row"),
    [
        ("requirements.txt", "p{0} @ https://a:b{0}@h.example/p{0}.whl\n"),
        ("environment.yml", "  - pip:\n    - p{0} @ https://a:b{0}@h.example/p{0}.whl\n"),
    ],
)
def test_the_secrets_of_all_lists_are_counted(
    second: str, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_allowance, "MOST_CUT", 5)
    first = "".join(f"https://a:b{number}@h.example/noarch/p{number}-1-0.conda\n" for number in range(3))
    rows = "dependencies:\n" * second.endswith("yml") + "".join(map(row.format, range(3)))
    path = archive_of(tmp_path, {"conda-explicit.txt": f"@EXPLICIT\n{first}", second: rows})
    with pytest.raises(
        SnapshotError, match=rf"{second}: with it, more than 5 rows of this import have a secret"
    ) as err:
        import_into(path, tmp_path / "out")
    assert err.value.hint == "take the secrets out of the list, and import it again"


def test_a_value_of_many_rows_is_joined_once() -> None:
    rows = ["A=x", *["y" * 40] * 49_900]
    start = time.process_time()
    variables = slurm._assignments(rows)
    assert time.process_time() - start < 1
    assert variables == {"A": "\n".join(["x", *rows[1:]])}


def test_variables_of_several_files_are_refused_together(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"jobs": [{"time": {}}], "meta": {}}')
    for name in "ab":
        rows = "".join(f"{name}{number}={'x' * 1000}\n" for number in range(1500))
        (tmp_path / f"{name}.txt").write_text(f"Environment used for 1\n--\n{rows}")
    with pytest.raises(SnapshotError, match=r"b\.txt: the variables have more than the 2 MiB"):
        import_into(tmp_path, tmp_path / "out")


LONG = ".".join("a" * 34)


@pytest.mark.parametrize(
    "line",
    [
        f"{LONG} = 1",
        f"[{LONG}]",
        f"x = {{ {LONG} = 1 }}",
        LONG.replace(".", " . ") + " = 1",
        LONG.replace("a", r'"b\""') + " = 1",
        LONG.replace("a", "'b'") + " = 1",
        f'''x = [""""a"""", "'", {{{LONG} = 1}}]  # "''',
        f"x = ['a\\', '''b\\''', {{{LONG} = 1}}]  # '",
        f"x = 1  # don't\n{LONG} = 1",
    ],
)
def test_a_key_of_many_parts_is_refused(line: str) -> None:
    """`tomllib` takes quadratic time for them."""
    data = line.encode()
    with pytest.raises(SnapshotError, match=r"^uv\.lock has a key of more than 32 parts") as caught:
        load_toml(data, "uv.lock")
    assert caught.value.hint == "look at what wrote it; a key of a lock has some five parts"
    assert msgspec.toml.decode(data)


def test_dots_of_values_are_no_parts_of_a_key() -> None:
    dots = "." * 99
    document = (
        f'x = "{dots}"\ny = \'{dots}\'\nz = """\n{dots}\n"""\na.b.c = [1.0, 2.0{", 3.5" * 99}]  # {dots}\n'
    )
    assert load_toml(document.encode(), "uv.lock")["z"] == f"{dots}\n"
    with pytest.raises(SnapshotError, match="is not TOML"):
        load_toml(b"x = '''" + dots.encode(), "uv.lock")


@pytest.mark.parametrize(
    "text",
    [
        f"a: &a {'k' * 400_000}\nb: [{', '.join(['*a'] * 30)}]\n",
        f"a: &a {'k' * 100_000}\nb: &b [{', '.join(['*a'] * 10)}]\nc: [{', '.join(['*b'] * 10)}]\n",
        f"a: &a {{? {'k' * 400_000} : 1}}\nb: [{', '.join(['*a'] * 30)}]\n",
    ],
)
def test_aliases_of_long_texts_have_a_bound(text: str) -> None:
    """Importers write a value out, with the text of each alias."""
    with pytest.raises(ValueError, match="aliases of more than 8 MiB of text"):
        load_yaml(text, BoundedLoader)


def test_aliases_of_short_texts_are_read() -> None:
    value = load_yaml(f"a: &a [x, y]\nb: [{', '.join(['*a'] * 1000)}]\n", BoundedLoader)
    assert value["b"] == [["x", "y"]] * 1000


def test_the_blanks_before_a_row_of_a_function_are_matched_in_one_way() -> None:
    assert env._OF_FUNCTION.fullmatch(" " * (1 << 20) + "\x01") is None  # it would last for an hour
    assert env._OF_FUNCTION.fullmatch(" \t if true; then")
    assert env._OF_FUNCTION.fullmatch("    a b;")


def test_the_address_of_a_repository_is_bounded() -> None:
    """A pin would become a row that says how long it is."""
    draft = Draft("run", "run.json")
    draft.add_pin("torch", "2.0", "packages")
    add_repository(draft, f"https://git.example/{'a/' * 600}torch", "a" * 40, "git")
    imported = draft.finish()
    assert imported.files["requirements.txt"] == b"torch==2.0\n"
    assert [entry.reason for entry in imported.facts.unused] == ["it has no address with a full commit"]


def test_a_project_is_read_without_its_huge_settings(tmp_path: Path) -> None:
    """Python's version is at the head of a `pyvenv.cfg`, and an import needs none."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / "requirements.txt").write_text("numpy==2.1.0\n")
    for settings, version in (("version = 3.12.4\n", b"Python 3.12.4\n"), ("", None)):
        with (tmp_path / ".venv/pyvenv.cfg").open("w") as stream:
            stream.write(settings)
            stream.truncate(100 << 20)
        facts = import_into(tmp_path / "requirements.txt", tmp_path / f"out{len(settings)}")
        python = tmp_path / f"out{len(settings)}" / "python.txt"
        assert (python.read_bytes() if python.exists() else None) == version
        assert facts.format == "a file (requirements.txt)"
