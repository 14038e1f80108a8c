"""Apptainer as a builder: the tree of the native one, as root and as a user; what it cannot do, it says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from reprobuild.builders import apptainer
from reprobuild.builders.adopt import adopt_image
from reprobuild.builders.model import FAILED
from reprobuild.builders.native import build_image
from reprobuild.errors import BuildError, EngineError
from reprobuild.image.model import Image
from reprobuild.image.oci.read import layout_tree, read_layout
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock, encode
from reprobuild.lock.system import EnvVar
from reprobuild.output.directory import LOCK
from reprobuild.recipe.build_context import write_context
from reprobuild.recipe.image_config import image_config
from reprobuild.recipe.payload import payload_files
from reprobuild.recipe.render import render_recipe
from reprobuild.store.store import Store
from tests.conftest import ROOT, Built, apptainer_environment, reprobuild
from tests.engines.small import Small
from tests.image.made import Made, file
from tests.recipe.test_engine import AWKWARD, differences
from tests.store.sealing import sealed as seal

ANOTHER = "is the Apptainer.def that of the lock? Render it again with `reprobuild render`"
RIGHTS = (
    "be root, or have subordinate user numbers in /etc/subuid and /etc/subgid, `newuidmap` (uidmap or "
    "shadow-utils) and util-linux 2.38 or newer; or build with `--builder native`, which needs no rights"
)
# In the environment of the caller: nothing of it may reach what is built.
HOSTILE = {
    "APPTAINERENV_PATH": "/x",
    "APPTAINER_BIND": "/etc/passwd:/opt/x",
    "TAR_OPTIONS": "--bogus",
    "TOKEN": "s3cr3t",
}

LARGE = 200_000  # bytes

Env = Mapping[str, str]


@pytest.fixture(scope="module")
def awkward(built_example: Built) -> Lock:
    """The example without its large wheels, with variables that syntaxes stumble over."""
    lock = built_example.lock
    store = Store(built_example.store)
    wheels = tuple(wheel for wheel in lock.wheels if store.blob(wheel.file.sha256).stat().st_size < LARGE)
    assert 10 < len(wheels) < len(lock.wheels)
    return msgspec.structs.replace(
        lock, wheels=wheels, workdir="/a b/$HOME/\"c'",
        environment=tuple(EnvVar(name=name, value=value) for name, value in AWKWARD.items()),
    )  # fmt: skip


@pytest.fixture(scope="module")
def native(
    awkward: Lock, built_example: Built, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Image, Path]:
    """What the native builder makes of it, and where."""
    store, out = Store(built_example.store), tmp_path_factory.mktemp("native")
    return build_image(
        awkward, store, out, files=payload_files(awkward, store), reference="x:1"
    ), out / "image"


def write_recipe(lock: Lock, store: Store, out: Path) -> None:
    texts = render_recipe(lock)
    (out / "Apptainer.def").write_text(texts["Apptainer.def"])
    write_context(lock, store, out, texts)


def build(lock: Lock, out: Path, env: Env, platform: str = "") -> Image:
    out = Path(os.path.relpath(out))  # as people give it
    write_lock(lock, out / "reprobuild.lock")
    more = {"platform": platform or lock.platform, "epoch": lock.epoch}
    with tempfile.TemporaryDirectory(prefix=".scratch.", dir=out) as scratch:
        said: list[str] = []
        with apptainer.build(out, Path(scratch), env=env, say=said.append, **more) as found:
            assert said[0].startswith("apptainer: 1.")
            return adopt_image(found, out, builder="apptainer", reference="x:1", level=1, **more)


def same_tree(one: Path, other: Path) -> bool:
    return differences(layout_tree(read_layout(one)), layout_tree(read_layout(other))) == []


@pytest.mark.long
def test_the_definition_file_gives_the_tree_of_the_native_builder(
    small: Small, apptainer_env: Env, tmp_path: Path
) -> None:
    """Of a system with users and groups that maintainer scripts made; as the one command, with the promise checked."""
    done = reprobuild(
        "build", small.out / LOCK, "-o", tmp_path, "--store", small.store, "--builder", "apptainer", "--json",
        env={**apptainer_env, **HOSTILE},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["image"]
    assert (said["tree"], said["builder"]) == (small.image.tree, "apptainer")
    assert "is not compared" not in done.stderr
    configs = [read_layout(folder / "image").config["config"] for folder in (tmp_path, small.out)]
    assert configs[0] == configs[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in small.out.iterdir()
    )


def test_a_hostile_commit_runs_nothing_on_the_host(apptainer_env: Env, tmp_path: Path) -> None:
    """`%setup` runs outside of the image, as the caller: a line break in a comment was a command of it."""
    made, mark = Made(tmp_path / "made"), tmp_path / "PWNED"
    made.source("project", [file("project.py", b"pass\n")])
    lock = seal(made, "alpha")
    commits = {"honest": lock.sources[0].commit, "evil": f"abc\n    touch {mark}\n #"}
    done = {}
    for name, commit in commits.items():
        text = encode(lock).decode().replace(json.dumps(commits["honest"]), json.dumps(commit))
        (tmp_path / f"{name}.lock").write_text(text)
        done[name] = reprobuild(
            "build", tmp_path / f"{name}.lock", "-o", tmp_path / name, "--store", made.store.root, "--offline",
            "--builder", "apptainer", env=apptainer_env,
        )  # fmt: skip
    # The control: `%setup` of the honest one ran. Its small base has no shell for what comes then.
    assert "while running %post section" in done["honest"].stderr
    assert (done["evil"].returncode, "is not a lock" in done["evil"].stderr) == (4, True)
    assert not mark.exists()


# Run as root in a mount namespace: $1 an empty directory, $2 Apptainer's root, $3 the script that enters it, $4 where
# newuidmap is, $5 the content of /etc/subuid; then a command, which runs as the user 1000.
AS_USER = r"""
set -eu
t=$1 root=$2 enter=$3 tools=$4 numbers=$5
shift 5
mount -n -t tmpfs -o mode=0755 tmpfs "$t"
mkdir "$t/root" "$t/bin"
mount -n --bind "$root" "$t/root"
cp "$enter" "$t/private_root.py"
cp "$tools/newuidmap" "$tools/newgidmap" "$t/bin"
chmod 4755 "$t/bin/newuidmap" "$t/bin/newgidmap"
printf '#!/bin/sh\nexec /usr/bin/python3 -I -S %s/private_root.py %s/root /usr/bin/apptainer "$@"\n' "$t" "$t" \
    >"$t/bin/apptainer"
chmod 0755 "$t/bin/apptainer"
cp -a /etc "$t/etc"
grep -q '^[^:]*:[^:]*:1000:' "$t/etc/passwd" || echo 'user:x:1000:1000::/:/bin/sh' >>"$t/etc/passwd"
printf '%s' "$numbers" | tee "$t/etc/subuid" >"$t/etc/subgid"
mount -n --bind "$t/etc" /etc
umask 077
exec setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps=+dac_read_search --ambient-caps=+dac_read_search \
    env "PATH=$t/bin:/usr/bin:/bin:/usr/sbin" HOME=/ "$@"
"""
BUILDS = """
import os, sys
from pathlib import Path
from reprobuild.errors import ReproError
from reprobuild.lock.file import read_lock
from tests.engines.test_apptainer_builder import build
try:
    print(build(read_lock(Path(sys.argv[1])), Path(sys.argv[2]), os.environ).tree)
except ReproError as err:
    print(f"{type(err).__name__}: {err}", err.hint, sep="\\n")
"""


@pytest.fixture(scope="module")
def newuidmap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of `newuidmap`: the machine's, or that of Debian's package."""
    found = shutil.which("newuidmap")
    if found:
        return Path(found).parent
    folder = tmp_path_factory.mktemp("uidmap")
    argv = [sys.executable, ROOT / "dev" / "private_engine.py", "unpack", folder, "uidmap"]
    subprocess.run(argv, capture_output=True, check=True)
    return folder / "usr" / "bin"


@pytest.fixture
def users_folder() -> Iterator[Path]:
    """A directory that every user can enter, with one of the user 1000 in it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as above:
        Path(above).chmod(0o755)
        for name, user in (("mounts", 0), ("out", 1000)):
            (Path(above) / name).mkdir(mode=0o755)
            os.chown(Path(above) / name, user, user)
        yield Path(above)


def as_user(folder: Path, newuidmap: Path, numbers: str, lock: Lock) -> list[str]:
    """Build as the user 1000, and return what there is to say."""
    private = apptainer_environment(folder, "--own")["PATH"].split(":")[0]
    (folder / "lock").write_bytes(msgspec.json.encode(lock))
    argv: list[str | Path] = [
        *(
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "--",
            "sh",
            "-c",
            AS_USER,
            "sh",
            folder / "mounts",
        ),
        *(Path(private).parent / "root", ROOT / "dev" / "private_root.py", newuidmap, numbers),
        *(f"PYTHONPATH={ROOT}", sys.executable, "-c", BUILDS, folder / "lock", folder / "out"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_an_unprivileged_user_with_subordinate_numbers(
    built_example: Built, awkward: Lock, native: tuple[Image, Path], newuidmap: Path, users_folder: Path
) -> None:
    """The same tree under another umask; nothing is left behind."""
    out = users_folder / "out"
    write_recipe(awkward, Store(built_example.store), out)
    said = as_user(users_folder, newuidmap, "1000:100000:65536\n", awkward)
    assert same_tree(out / "image", native[1])
    assert said == [native[0].tree]
    assert sorted(path.name for path in out.iterdir()) == [
        "Apptainer.def",
        "context",
        "image",
        "reprobuild.lock",
    ]


def test_a_user_without_subordinate_numbers(
    built_example: Built, newuidmap: Path, users_folder: Path
) -> None:
    """Owners would be lost, so nothing is built."""
    said = as_user(users_folder, newuidmap, "", built_example.lock)
    assert said[0].startswith(
        "BuildError: Apptainer would lose the owners of files, or have a network: unshare: "
    )
    assert said[-1] == RIGHTS
    assert [path.name for path in (users_folder / "out").iterdir()] == ["reprobuild.lock"]


# --- what goes wrong ---------------------------------------------------------------------------


def definition(out: Path, setup: str, rest: str = "") -> None:
    (out / "Apptainer.def").write_text(f"Bootstrap: scratch\n\n%setup\n    {setup}\n{rest}")


def test_the_build_has_no_network_and_nothing_of_the_environment(
    built_example: Built, apptainer_env: Env, tmp_path: Path
) -> None:
    definition(tmp_path, 'cat /proc/net/route >&2; env >&2; echo "$TOKEN$TAR_OPTIONS<" >&2; exit 3')
    with pytest.raises(
        BuildError, match=r"apptainer: could not build the Apptainer\.def: `unshare` exited"
    ) as failed:
        build(built_example.lock, tmp_path, {**apptainer_env, **HOSTILE})
    assert failed.value.hint == FAILED
    assert "\n<\n" in str(failed.value)
    assert "s3cr3t" not in str(failed.value)
    assert "0000" not in str(failed.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Apptainer.def", "reprobuild.lock"]


def test_variables_whose_order_depends_on_the_equals_sign(tmp_path: Path) -> None:
    """`A1=` sorts before `A=` as a line, and behind it as a name."""
    environment = tuple(EnvVar(name=name, value="x") for name in ("A", "A1"))
    lock = Made(tmp_path).lock(environment=environment)
    config = image_config(lock)
    assert (
        apptainer._check_config({**config.document(), "Env": config.settings}, lock)["Env"] == config.settings
    )
    assert list(config.env) != config.settings


def test_another_definition_file_is_noticed(built_example: Built, apptainer_env: Env, tmp_path: Path) -> None:
    text = built_example.out.joinpath("Apptainer.def").read_text()
    rest = text[text.index("%environment") :]
    for before, after, what in (
        ("export LANG=C.UTF-8", "export LANG=C", "Env"),
        ("cd /", "cd /tmp/", "WorkingDir"),
        ("-- /bin/bash", "-- /bin/sh", "Cmd"),
        ("exec /usr", "exec /bin/env /usr", "Entrypoint"),
        ("org.reprobuild.lock sha256:", "org.reprobuild.lock sha512:", "Labels"),
    ):
        assert before in rest
        definition(tmp_path, "true", rest.replace(before, after, 1))
        with pytest.raises(
            BuildError, match=f"Apptainer built another {what} than the lock says: "
        ) as failed:
            build(built_example.lock, tmp_path, apptainer_env)
        assert failed.value.hint == ANOTHER
        assert not (tmp_path / "image").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("env/90-environment.sh", "export A=1 B=2\n"),
        ("env/90-environment.sh", "A=1\n"),
        ("env/90-environment.sh", "export A='1\n"),
        ("runscript", "#!/bin/sh\nexec true\n"),
        ("runscript", "cd / || exit 2\n[ $# -gt 0 ] || set -- sh\nexec true \"$@\"\n"),
        ("runscript", "cd / || exit 1\n[ $# -gt 1 ] || set -- sh\nexec true \"$@\"\n"),
        ("runscript", "cd / || exit 1\n[ $# -gt 0 ] || set -- sh\ntrue \"$@\"\n"),
        ("labels.json", "[]"),
        ("labels.json", "{"),
    ],
)  # fmt: skip
def test_what_apptainer_wrote_in_another_form(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "90-environment.sh").write_text("#!/bin/sh\n# text\n\n   export A='b  c'\n")
    (tmp_path / "runscript").write_text(
        "cd / || exit 1\n  [ $# -gt 0 ] || set -- sh -l\n\nexec a 'b c' \"$@\"\n"
    )
    (tmp_path / "labels.json").write_text('{"x": "y"}')
    assert apptainer.read_config(tmp_path) == {
        "Env": ["A=b  c"], "WorkingDir": "/", "Cmd": ["sh", "-l"], "Entrypoint": ["a", "b c"], "Labels": {"x": "y"},
    }  # fmt: skip
    (tmp_path / name).write_text(text)
    with pytest.raises(BuildError, match="what Apptainer wrote cannot be read: ") as failed:
        apptainer.read_config(tmp_path)
    assert failed.value.hint == ANOTHER


def test_there_is_no_apptainer(built_example: Built, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="neither `apptainer` nor `singularity` answers") as failed:
        build(built_example.lock, tmp_path, {"PATH": str(tmp_path)})
    assert failed.value.hint == "install Apptainer 1.1 or newer, or choose another engine with --engine"


def test_another_architecture(built_example: Built, apptainer_env: Env, tmp_path: Path) -> None:
    other = "linux/arm64" if os.uname().machine == "x86_64" else "linux/amd64"
    with pytest.raises(BuildError, match=f"Apptainer builds for .* here, and not for {other}") as failed:
        build(built_example.lock, tmp_path, apptainer_env, other)
    assert failed.value.hint == "build on a machine of that kind, or with another builder"


@pytest.mark.parametrize("name", ["a, b", "a:b", "it's", 'the "same"'])
def test_a_folder_that_apptainer_would_take_apart(
    built_example: Built, apptainer_env: Env, tmp_path: Path, name: str
) -> None:
    place = tmp_path / name
    place.mkdir()
    lock = built_example.lock
    with (
        pytest.raises(BuildError, match=r"Apptainer cannot build in .*, whose path has") as failed,
        apptainer.build(
            built_example.out, place, platform=lock.platform, epoch=lock.epoch, env=apptainer_env, say=print
        ),
    ):
        pass
    assert failed.value.hint == (
        "give -o a directory without commas, colons and quotes in its path, or take another builder"
    )
    assert not list(place.iterdir())
