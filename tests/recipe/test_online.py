"""The online recipe as text: its parts, its gaps, and what it refuses."""

from __future__ import annotations

import ast
import base64
import bz2
import hashlib
import io
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.errors import BuildError
from reprobuild.lock.model import SealedLock
from reprobuild.lock.python import Building, CondaPackage, Interpreter, Sdist, Source, Wheel
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import Artefact, Base, BaseImage, Deb, EnvVar, ImageBlob, ImagePackage
from reprobuild.pipeline.render import OnlineRecipe, render_from_network
from reprobuild.recipe.online import sources
from reprobuild.recipe.online.embedded import embed
from reprobuild.recipe.payload import pack_runtime
from tests.image.made import Made, file

OFFLINE = "the offline recipe has every file: `reprobuild render LOCK -o DIR`"
PYPI = f"https://files.example.org/packages/ab/cd/{60 * 'e'}/"
DIFF = b"--- a/project.py\n+++ b/project.py\n@@ -1 +1 @@\n-pass\n+import os\n"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "made")


def locked(made: Made, **more: Any) -> SealedLock:
    """Return a lock with the true runtime package."""
    lock = made.lock(**more)
    outputs = msgspec.structs.replace(lock.realised, runtime=pack_runtime(made.store))
    return msgspec.structs.replace(lock, realised=outputs)


def artefact(url: str, digit: str = "a") -> Artefact:
    return Artefact(filename=url.rpartition("/")[2] or "file", sha256=digit * 64, size=3, url=url)


def deb(name: str, version: str, url: str, architecture: str = "amd64") -> Deb:
    return Deb(name=name, version=version, architecture=architecture, essential=False, file=artefact(url))


def wheel(name: str, url: str, role: Any = "environment", digit: str = "a") -> Wheel:
    return Wheel(name=name, version="1.0", role=role, file=artefact(url, digit))


def render(made: Made, snapshot: Path | None = None, **more: Any) -> OnlineRecipe:
    return render_from_network(locked(made, **more), made.store, snapshot)


def both(recipe: OnlineRecipe) -> tuple[str, str]:
    return recipe.texts["Dockerfile"], recipe.texts["Apptainer.def"]


def subjects(recipe: OnlineRecipe) -> list[str]:
    return [gap.subject for gap in recipe.gaps]


def debian(*debs: Deb, **more: Any) -> Base:
    return Base(distribution="debian", release="bookworm", packages=debs, **more)


def test_packages_of_the_distribution_have_their_archive(made: Made) -> None:
    base = debian(
        deb(
            "libc6",
            "2.36-9",
            "https://snapshot.debian.org/archive/debian/20240301T030400Z/pool/main/g/libc6.deb",
        ),
        deb(
            "tool",
            "1:2~b",
            "https://snapshot.debian.org/archive/debian/20240301T030400Z/pool/contrib/t/tool.deb",
        ),
        deb("old", "1", "https://snapshot.debian.org/archive/debian/20230101T000000Z/pool/main/o/old.deb"),
        deb("fixed", "3", "http://mirror.example.org/debian-security/pool/updates/main/f/fixed.deb"),
    )
    for text in both(render(made, base=base)):
        assert "APT_DEBIAN_2=" in text
        assert "https://snapshot.debian.org/archive/debian/20240301T030400Z/" in text
        assert 'echo deb "$archive" bookworm bookworm-updates main contrib >>' in text
        assert 'echo deb "$archive" bookworm-security main >>' in text
        assert "    fixed=3 \\\n    libc6=2.36-9 \\\n    old=1 \\\n    'tool=1:2~b'\n" in text
        # only the archive without a date can be taken of another day
        assert '|| archive=https://snapshot.debian.org/archive/debian-security/"$APT_SNAPSHOT"/' in text
        assert '/archive/debian/"$APT_SNAPSHOT"' not in text


def test_packages_of_other_archives_come_by_address_and_hash(made: Made) -> None:
    base = Base(
        distribution="ubuntu", release="jammy",
        packages=(
            deb("a", "1", "http://archive.ubuntu.com/ubuntu/pool/universe/a/a.deb"),
            deb("cuda", "12", "https://developer.download.nvidia.com/compute/x/./cuda $(id).deb"),
            deb("ppa", "2", "https://ppa.launchpadcontent.net/team/ppa/ubuntu/pool/main/p/ppa.deb"),
            deb("i", "1", "http://archive.ubuntu.com/ubuntu/pool/main/i/i.deb", "i386"),
            deb("own", "5", ""),
        ),
    )  # fmt: skip
    recipe = render(made, base=base)
    assert "own=5" in subjects(recipe)
    for text in both(recipe):
        assert f"x/./cuda%20%24(id).deb' /build/apt/cuda_amd64.deb SHA256:{'a' * 64}\n" in text
        assert "ppa/ubuntu/pool/main/p/ppa.deb /build/apt/ppa_amd64.deb" in text
        assert "jammy jammy-updates jammy-security main universe" in text
        assert "dpkg --add-architecture i386" in text
        assert "    i:i386=1" in text
        assert "$(id)" not in text.replace("%24(id)", "")


def test_an_image_is_named_by_its_digest(made: Made) -> None:
    blob = ImageBlob(filename="config", sha256="3" * 64, size=1)
    package = ImagePackage(name="python3.11", version="3.11.2-6", architecture="amd64")
    image = BaseImage(
        reference="registry.example.org:5000/team/base:24.05", digest=f"sha256:{'2' * 64}", config=blob, layers=(),
        packages=(package,),
    )  # fmt: skip
    recipe = render(made, base=debian(image=image))
    dockerfile, definition = both(recipe)
    address = f"registry.example.org:5000/team/base@sha256:{'2' * 64}"
    assert f'ARG BASE_IMAGE="{address}"' in dockerfile
    assert "AS system\nUSER root\n" in dockerfile
    assert f"    BASE_IMAGE={address}\n" in definition
    assert "python3.11-venv=3.11.2-6" in dockerfile
    assert subjects(recipe) == []


def test_without_an_image_it_says_so(made: Made) -> None:
    recipe = render(made)
    assert subjects(recipe) == ["debian:bookworm"]
    for text in both(recipe):
        assert "# gap       debian:bookworm: the lock installs its 0 packages into an empty directory" in text


def downloads(text: str) -> list[list[str]]:
    """Return the rows of the list of downloads: sha256, path, project, address."""
    return [
        row.split()
        for row in text.partition("/build/distributions.txt")[2]
        .partition("\n")[2]
        .partition("EOF\n")[0]
        .splitlines()
    ]


def test_files_of_other_indexes_have_their_address(made: Made) -> None:
    wheels = (
        wheel("one", f"{PYPI}one-1.0-py3-none-any.whl"),
        wheel("two", "https://download.example.org/whl/cu124/two-1.0 ${X}.whl"),
        wheel("three", "file:///home/ada/wheels/three-1.0-py3-none-any.whl"),
    )
    decisions = RecordedDecisions(indexes={"two": "https://user:pa55w0rd@index.example.org/simple"})
    recipe = render(made, wheels=wheels, decisions=decisions)
    assert subjects(recipe) == ["debian:bookworm", "three 1.0"]
    for text in both(recipe):
        assert downloads(text) == [
            ["a" * 64, f"requirements/{name}", project, address]
            for name, project, address in (
                ("one-1.0-py3-none-any.whl", "one", f"{PYPI}one-1.0-py3-none-any.whl"),
                ("three-1.0-py3-none-any.whl", "three", "-"),
                (
                    "two-1.0%20%24%7BX%7D.whl",
                    "two",
                    "https://download.example.org/whl/cu124/two-1.0%20%24%7BX%7D.whl",
                ),
            )
        ]
        assert f"\none==1.0 --hash=sha256:{'a' * 64}\n" in text
        assert "PIP_EXTRA_INDEX_URL" in text
        assert "index.example.org/simple" in text
        assert "pa55w0rd" not in text


def steps(dockerfile: str) -> list[tuple[str, str]]:
    """Return the options and the script of each RUN."""
    return re.findall(r"^RUN ?([^\n]*) ?<<'SCRIPT'\n(.*?)^SCRIPT$", dockerfile, re.M | re.S)


def test_no_package_runs_beside_a_login(made: Made) -> None:
    """One step has the netrc and the agent, and only downloads; another one builds, without a network."""
    source = project(made, url="ssh://git@git.example.org/project.git")
    sdist = Sdist(name="old", version="2", file=artefact(f"{PYPI}old-2.tar.gz"), building=Building())
    recipe = render(made, sources=(source,), sdists=(sdist,), wheels=(wheel("one", f"{PYPI}one-1.0.whl"),))
    found = steps(recipe.texts["Dockerfile"])
    login = [script for options, script in found if "--mount" in options]
    assert [options.strip() for options, _ in found if options.strip()] == [
        "--mount=type=secret,id=netrc,target=/root/.netrc --mount=type=ssh",
        "--network=none",
    ]
    assert [line for line in "".join(login).splitlines() if not line.startswith("#")] == [
        "set -eu",
        "umask 022",
        "export HOME=/root SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt GIT_ALLOW_PROTOCOL=https:ssh:file",
        'export GIT_SSH_COMMAND="ssh -o StrictHostKeyChecking=accept-new"',
        '[ -e /src/project/.git ] || git clone --quiet --no-checkout -- "$SOURCE_PROJECT" /src/project',
        "/usr/bin/python3.11 -I -S /build/download.py /build/distributions.txt /build/files",
    ]
    for options, script in found:
        assert ("pip install" in script) == ("--network=none" in options)
    for text in both(recipe):
        assert "--no-index" in text
        assert ".netrc:/root" not in text


def test_a_clone_without_tls_has_no_login(made: Made, tmp_path: Path) -> None:
    """An address is known when the image is built: it can be an argument."""
    recipe = render(made, sources=(project(made, url="http://git.example.org/project.git"),))
    for text in both(recipe):
        clone = text.partition("case ")[2].partition("esac")[0]
        for address, home in (
            ("http://h/x", "/build/none"),
            ("git://h/x", "/build/none"),
            ("https://h/x", ""),
        ):
            script = f'git() {{ echo "$HOME"; }}\ncase {clone}esac'
            words = ["env", f"SOURCE_PROJECT={address}", "HOME=/root", "bash", "-c", script]
            assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() == home
    first = next(script for options, script in steps(recipe.texts["Dockerfile"]) if "case " in script)
    assert "http:* | git:*) HOME=/build/none git clone" in first


def test_projects_are_built_with_their_locked_requirements(made: Made) -> None:
    building = Building(requires=("b" * 64,), variables=(EnvVar(name="FLAG", value="it's $HOME"),))
    sdists = (
        Sdist(name="Old_One", version="2", file=artefact(f"{PYPI}old-2.tar.gz"), building=building),
        Sdist(
            name="late", version="", file=artefact("https://host.example.org/late.zip"), subdirectory="lib",
            building=Building(environment=True, compiles=True),
        ),
    )  # fmt: skip
    wheels = (wheel("setuptools", f"{PYPI}setuptools.whl", "build", "b"),)
    compilers = debian(deb("gcc", "12", "http://deb.example.org/debian/pool/main/g/gcc.deb"))
    for text in both(render(made, wheels=wheels, sdists=sdists, build_base=compilers)):
        assert f"--find-links /build/files/sdist-old-one\nOld_One==2 --hash=sha256:{'a' * 64}\n" in text
        assert "late @ file:///build/files/sdist-late/late.zip#subdirectory=lib --hash" in text
        assert ["a" * 64, "sdist-late/late.zip", "late", "https://host.example.org/late.zip"] in downloads(
            text
        )
        assert ["b" * 64, "build-1/setuptools.whl", "setuptools", f"{PYPI}setuptools.whl"] in downloads(text)
        assert f"setuptools==1.0 --hash=sha256:{'b' * 64}" in text
        assert "    gcc=12\n" in text
        first = text.index("/build/sdist-old-one.txt\n$install")
        assert "PYTHONPATH=/build/build-1" in text[:first]
        assert """FLAG='it'"'"'s $HOME'""" in text
        wheels_at = text.index("$install --require-hashes --requirement /build/requirements.txt")
        assert text.index("--requirement /build/sdist-old-one.txt") < wheels_at
        assert text.index("--requirement /build/sdist-late.txt") > wheels_at


@pytest.mark.parametrize(
    ("kind", "url", "needle"),
    [
        ("standalone", "https://host.example.org/python.tar.gz", "python.tar.gz SHA256:" + "a" * 64),
        ("conda", "", f"linux-64 python-3.12.1-h1_0.conda {'c' * 64} https://conda.example.org/"),
    ],
)
def test_other_interpreters(made: Made, kind: Any, url: str, needle: str) -> None:
    python = Interpreter(
        version="3.12.1", executable="/opt/python/bin/python3.12", evidence="asked", kind=kind,
        file=artefact(url) if url else None,
    )  # fmt: skip
    package = CondaPackage(
        name="python", version="3.12.1", build="h1_0", subdir="linux-64", channel="conda-forge",
        file=artefact("https://conda.example.org/conda-forge/linux-64/python-3.12.1-h1_0.conda", "c"),
    )  # fmt: skip
    for text in both(render(made, interpreter=python, conda=(package,) if kind == "conda" else ())):
        assert needle in text
        assert ("MICROMAMBA_URL" in text) == (kind == "conda")
        assert ("-m venv /opt/env" in text) == (kind == "standalone")


def test_what_only_the_store_has_is_refused(made: Made) -> None:
    python = Interpreter(
        version="3.12.1",
        executable="/opt/python/bin/python3.12",
        evidence="asked",
        kind="captured",
        file=artefact(""),
    )
    with pytest.raises(BuildError, match="was packed by `capture`") as caught:
        render(made, interpreter=python)
    assert caught.value.hint == OFFLINE
    package = CondaPackage(
        name="a", version="1", build="0", subdir="linux-64", channel="own", file=artefact("file:///a.conda")
    )
    with pytest.raises(BuildError, match="only the store has conda's package a 1") as caught:
        render(made, conda=(package,))
    assert caught.value.hint == OFFLINE
    with pytest.raises(BuildError, match="which rocky does not have") as caught:
        render(made, base=Base(distribution="rocky", release="9", packages=()))
    assert caught.value.hint == OFFLINE


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def project(made: Made, content: bytes = b"pass\n", **more: Any) -> Source:
    made.source("project", [file("project.py", content)], **more)
    return made.sources[-1]


def test_changes_stay_readable(made: Made, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "project.diff").write_bytes(DIFF)
    (snapshot / "link").symlink_to("/etc/passwd")
    source = project(made, url="git+ssh://git@git.example.org/project.git", patch=sha256(DIFF))
    recipe = render(made, snapshot, sources=(source,))
    dockerfile, definition = both(recipe)
    assert f"COPY <<'EOF' /build/project.diff\n{DIFF.decode()}EOF\n" in dockerfile
    assert f"cat >/build/project.diff <<'EOF'\n{DIFF.decode()}EOF\n" in definition
    assert "--mount=type=ssh" in dockerfile
    for text in (dockerfile, definition):
        assert 'git clone --quiet --no-checkout -- "$SOURCE_PROJECT" /src/project' in text
        assert f"git checkout --quiet --detach {'c' * 40}\n" in text
        assert "openssh-client" in text
        assert "/src/project\n" in text
    assert subjects(recipe) == ["debian:bookworm"]


@pytest.mark.parametrize("binary", [False, True])
def test_no_history_is_in_a_recipe(made: Made, tmp_path: Path, binary: bool) -> None:
    """A bundle has what unpushed commits removed, packed, so that no search finds a secret in it."""
    (tmp_path / "attributes").write_text("*.py binary\n")
    token = "ghp_" + "pLIix6MEOLeMa61EqJ" + "omTEI1JEzO3joOj37H"
    git(tmp_path, "init", "--quiet")
    for content in (f"TOKEN = '{token}'\n", "pass\n"):
        (tmp_path / "project.py").write_text(content)
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "--message", "x")
    git(tmp_path, "bundle", "create", "--quiet", "project.patch", "HEAD")
    if binary:
        git(
            tmp_path,
            "-c",
            "core.attributesFile=attributes",
            "diff",
            "--binary",
            "--output=project.patch",
            "HEAD~",
        )
    bundle = (tmp_path / "project.patch").read_bytes()
    source = project(made, url="https://git.example.org/project.git", patch=sha256(bundle))
    recipe = render(made, tmp_path, sources=(source,))
    reason = {gap.subject: gap.reason for gap in recipe.gaps}["source project"]
    assert reason == (
        "its changes are a bundle or binary, which can hold removed content: "
        "the recipe has a copy of its tree instead of a clone"
    )
    packed = embed("x", bz2.compress(made.store.verified(source.file.sha256, "x").read_bytes())).text
    for text in both(recipe):
        assert base64.b64encode(bundle).decode() not in text.replace("\n", "")
        assert "GIT binary" not in text
        assert packed in text
        assert "git clone" not in text
    key = project(made, f"TOKEN = '{token}'\n".encode(), url=source.url, patch=sha256(bundle))
    with pytest.raises(BuildError, match=r"source project, line \d+: this looks like a secret"):
        render(made, tmp_path, sources=(key,))


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=x", "-c", "user.email=x")
    subprocess.run(["git", "-C", folder, *names, *words], check=True, capture_output=True)


def test_a_source_without_a_clone_is_a_copy(made: Made) -> None:
    source = project(made, url="https://git.example.org/project.git", patch="9" * 64)
    recipe = render(made, sources=(source,))
    reason = {gap.subject: gap.reason for gap in recipe.gaps}["source project"]
    assert reason.endswith(
        "which `--snapshot DIR` names: the recipe has a copy of its tree instead of a clone"
    )
    packed = embed("x", bz2.compress(made.store.verified(source.file.sha256, "x").read_bytes())).text
    for text in both(recipe):
        assert packed in text
        assert "git clone" not in text
        assert "--editable /src/project" in text


def test_a_large_source_is_left_out(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST", 100)
    recipe = render(made, sources=(project(made),))
    assert subjects(recipe) == ["debian:bookworm", "source project"]
    assert recipe.gaps[1].reason.endswith("the recipe leaves it out, because its tree is large")
    for text in both(recipe):
        assert "--editable" not in text


def test_a_secret_does_not_hide_in_base64(made: Made) -> None:
    key = b"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzzzz\n"  # made up
    with pytest.raises(BuildError, match="this looks like a secret") as caught:
        render(made, sources=(project(made, key),))
    assert caught.value.hint == "remove it from the source, and capture again"


def test_a_password_package_is_no_password(made: Made) -> None:
    base = debian(
        deb("passwd", "1:4.13+dfsg1-1+deb12u2", "http://h.example.org/debian/pool/main/s/passwd.deb")
    )
    assert "passwd=1:4.13+dfsg1-1+deb12u2" in render(made, base=base).texts["Dockerfile"]
    settings = (EnvVar(name="CMD", value="run password=Xq9zK2mP7wL4vT8s"),)
    with pytest.raises(BuildError, match="this looks like a secret"):
        render(made, base=base, environment=settings)


@pytest.mark.parametrize(
    ("content", "encoded"),
    [
        (b"a line\n\tanother: 'x' \"y\" $z `w` \\\n", False),
        (b"no last line break", True),
        (b"a\r\n", True),
        (b"EOF\n", True),
        (b"  EOF\n", True),
        (b"%post\n", True),
        (b"  %post\n", True),
        (b"Bootstrap: docker\n", True),  # begins a stage of an Apptainer.def, in a here-document, too
        (b"  bootSTRAP: docker\n", True),
        (b"{{ x }}\n", True),
        (b"\xff\n", True),
        (b"\0\n", True),
        ("\u202e\n".encode(), True),
        ("\u2028\n".encode(), True),
        ("Größe\n".encode(), False),
    ],
)
def test_a_here_document_gives_exactly_the_content(content: bytes, encoded: bool) -> None:
    embedded = embed("/build/x", content)
    assert embedded.encoded == encoded
    done = subprocess.run(["sh", "-c", f"cat <<'EOF'\n{embedded.text}EOF\n"], capture_output=True, check=True)
    assert (base64.b64decode(done.stdout) if encoded else done.stdout) == content


def test_the_runtime_is_whole(made: Made) -> None:
    """What a carried module imports is carried: reading the recipe's own archive."""
    text = render(made).texts["Dockerfile"]
    encoded = text.rpartition("<<'EOF'\n")[2].partition("EOF\n")[0]
    content = io.BytesIO(bz2.decompress(base64.b64decode(encoded)))
    with tarfile.open(fileobj=content) as archive:
        streams = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        files = {name: stream.read() for name, stream in streams.items() if stream}
    names = {name.removeprefix("opt/reprobuild/lib/") for name in files}
    assert {"reprobuild_runtime/entrypoint.py", "reprobuild_runtime/profiles/profiles.json"} <= names
    assert not any(part in name for name in names for part in ("/probes/", "__pycache__", "/capture.py"))
    for name, source in files.items():
        for node in ast.walk(ast.parse(source)) if name.endswith(".py") else ():
            if (
                isinstance(node, ast.ImportFrom)
                and node.module
                and node.module.startswith("reprobuild_runtime")
            ):
                place = node.module.replace(".", "/")
                assert {f"{place}.py", f"{place}/__init__.py"} & names, (name, node.module)


def test_equal_locks_equal_text(made: Made) -> None:
    source = project(made)
    assert render(made, sources=(source,)) == render(made, sources=(source,))


@pytest.mark.parametrize("bad", ['";id;"', "$(id)", "`id`", "\\"])
def test_no_address_acts_in_the_scripts_of_apptainer(made: Made, bad: str) -> None:
    """Apptainer puts addresses into the scripts as they are."""
    packed = debian(deb("libc6", "1", f"https://host.example.org/{bad}/debian/pool/main/g/libc6.deb"))
    with pytest.raises(BuildError, match="cannot stand in a recipe"):
        render(made, base=packed)
    source = Source(
        name="project", url=f"https://git.example.org/{bad}", commit="8" * 40, tree="9" * 40, patch=None,
        path="/src/project", editable=True, epoch=0, file=artefact(""),
    )  # fmt: skip
    with pytest.raises(BuildError, match="cannot stand in a recipe") as caught:
        render(made, sources=(source,))
    assert caught.value.hint == "make the lock again, with an address without quotes, `$` and backslashes"
