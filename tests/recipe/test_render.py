"""The recipe as text: what it says, how values are quoted, what it refuses."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import jinja2
import msgspec
import pytest

from reprobuild.compare.environments.lock import from_lock
from reprobuild.errors import BuildError
from reprobuild.lock.diff import compare_locks
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock, Resolution, SealedLock
from reprobuild.lock.python import Sdist
from reprobuild.lock.system import Artefact, EnvVar
from reprobuild.recipe import render as room
from reprobuild.recipe.render import quote_dockerfile, quote_sh, quote_workdir, render_recipe
from tests.image.made import Made, file


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    made = Made(tmp_path)
    made.wheel("six", {"six.py": b"pass\n"})
    made.source("project", [file("project.py", b"pass\n")], patch="9" * 64)
    settings = (
        EnvVar(name="NOTE", value='say "$5" \\'),
        EnvVar(name="LINES", value="one\nsecond line"),
        EnvVar(name="BRACES", value="{{ name }}"),
    )
    ruling = Resolution(
        file="requirements.txt", line=1, subject="six", outcome="replaced", reason="{{ gone }}\n%post\nrm"
    )
    return made.lock(environment=settings, rulings=(ruling,))


def instructions(dockerfile: str) -> list[str]:
    return [line for line in dockerfile.splitlines() if line and not line.startswith("#")]


def test_the_dockerfile_says_no_more_than_this(lock: Lock) -> None:
    own = f"lock-{lock.digest[:12]}"
    at = f"/dev/reprobuild/{own}"
    install = f'"/usr/bin/python3.11", "-I", "-S", "-B", "{at}/install.py", "{at}/install.json"'
    base, source = lock.realised.base[:12], lock.sources[0].file.sha256[:12]
    assert instructions(render_recipe(lock)["Dockerfile"]) == [
        "FROM scratch",
        f"ADD base-{base}.tar /",
        "RUN --mount=type=bind,target=/dev/reprobuild \\",
        f"    [{install}]",
        f'ADD ["sources/project-{source}.tar", "/src/project/"]',
        f"ADD {own}/payload.tar /",
        'ENV BRACES="{{ name }}"',
        'ENV LANG="C.UTF-8"',
        r'ENV NOTE="say \"\$5\" \\"',
        'ENV PATH="/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"',
        'ENV REPROBUILD_PROFILE="torch"',
        "WORKDIR /src",
        'ENTRYPOINT ["/usr/bin/python3.11", "-I", "-S", '
        '"/opt/reprobuild/lib/reprobuild_runtime/entrypoint.py"]',
        'CMD ["/bin/bash"]',
        'LABEL org.opencontainers.image.created="2023-11-14T22:13:20Z"',
        f'LABEL org.reprobuild.lock="sha256:{lock.digest}"',
        f'LABEL org.reprobuild.snapshot="sha256:{lock.snapshot}"',
    ]


def test_no_first_line_asks_for_another_frontend(lock: Lock) -> None:
    """BuildKit reads `# name=value` at the top as a directive, and would fetch a `syntax` from a registry."""
    first = render_recipe(lock)["Dockerfile"].splitlines()[0]
    assert first.startswith("# ")
    assert "=" not in first


def test_sections_of_the_definition_file_are_only_ours(lock: Lock) -> None:
    text = render_recipe(lock)["Apptainer.def"]
    words = [line.split()[0] for line in text.splitlines() if line.strip()]
    sections = [word for word in words if word.startswith("%")]
    assert sections == ["%setup", "%post", "%environment", "%runscript", "%labels"]


def test_apptainer_finds_nothing_to_fill_in(lock: Lock) -> None:
    text = render_recipe(lock)["Apptainer.def"]
    assert "{{" not in text
    assert "export BRACES='{''{ name }}'" in text
    assert "deviation six: replaced: { { gone }} %post rm" in text


def test_what_has_line_breaks_is_said_to_be_elsewhere(lock: Lock) -> None:
    texts = render_recipe(lock)
    for name in ("Dockerfile", "Apptainer.def"):
        (line,) = (line for line in texts[name].splitlines() if "LINES" in line)
        assert line.startswith("#")
        assert "/opt/reprobuild/environ.json" in line
        assert "second line" not in texts[name]


def test_the_environment_is_listed_by_version_and_hash(lock: Lock) -> None:
    (wheel,) = lock.wheels
    assert f"six==1.0 --hash=sha256:{wheel.file.sha256}\n" in render_recipe(lock)["requirements.txt"]


def test_equal_locks_equal_bytes(lock: Lock) -> None:
    again = msgspec.json.decode(msgspec.json.encode(lock), type=SealedLock)
    assert render_recipe(again) == render_recipe(lock)


def test_a_fact_that_is_not_there_is_an_error(
    lock: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in room.TEMPLATES:
        (tmp_path / f"{name}.j2").write_text("{{ unheard_of }}\n")
    monkeypatch.setattr(room, "template_folder", lambda: tmp_path)
    room.recipe_templates.cache_clear()
    try:
        with pytest.raises(jinja2.UndefinedError, match="unheard_of"):
            render_recipe(lock)
    finally:
        room.recipe_templates.cache_clear()


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\x1b[0m", "a\0"])
def test_a_control_character_cannot_be_written(value: str) -> None:
    with pytest.raises(BuildError, match="control character"):
        quote_dockerfile(value)


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("", '""'),
        (" a ", '" a "'),
        ("${PATH}", r'"\${PATH}"'),
        ("a\\", r'"a\\"'),
        ('"', r'"\""'),
        ("# no comment", '"# no comment"'),
        ("Größe", '"Größe"'),
    ],
)
def test_values_in_the_dockerfile(value: str, quoted: str) -> None:
    assert quote_dockerfile(value) == quoted


@pytest.mark.parametrize(
    "value", ["", " a ", "${PATH}", "a\\", "'", '"', "{{ x }}", "{{{{'", "'{{'}}", "!`x`"]
)
def test_values_in_the_definition_file(value: str) -> None:
    word = quote_sh(value)
    assert "{{" not in word
    assert shlex.split(word) == [value]
    done = subprocess.run(["/bin/sh", "-c", f"printf %s {word}"], capture_output=True, text=True, check=True)
    assert done.stdout == value


def test_a_working_folder_is_quoted_without_quotation_marks() -> None:
    assert quote_workdir("""/a b\\$c"d'""") == r"""/a b\\\$c\"d\'"""


def test_pylock_names_every_wheel(lock: Lock) -> None:
    text = render_recipe(lock)["pylock.toml"]
    document = msgspec.toml.decode(text)
    assert json.dumps(document["packages"]).count("sha256") == 1
    assert [package["name"] for package in document["packages"]] == ["project", "six"]


def test_an_archive_that_is_built_is_a_distribution_like_others(lock: Lock, tmp_path: Path) -> None:
    file = Artefact(
        filename="old-1.0.tar.gz", sha256="7" * 64, size=9, url="https://example.invalid/old-1.0.tar.gz"
    )
    built = msgspec.structs.replace(lock, sdists=(Sdist(name="old", version="1.0", file=file),))
    packages = msgspec.toml.decode(render_recipe(built)["pylock.toml"])["packages"]
    assert packages[0] == {
        "name": "old", "version": "1.0",
        "sdist": {"name": file.filename, "url": file.url, "size": 9, "hashes": {"sha256": "7" * 64}},
    }  # fmt: skip
    changes = compare_locks(lock, built)
    assert [(one.kind, one.name, one.other) for one in changes] == [
        ("python", "old", f"1.0 old-1.0.tar.gz sha256:{'7' * 64}")
    ]
    write_lock(built, tmp_path / "lock")
    known = from_lock(tmp_path / "lock", "locked").known["python"]
    assert known["old"] == {"version": "1.0", "sha256": "7" * 64, "subdirectory": "."}
