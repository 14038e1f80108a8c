"""From an image of a real registry to an image of ours: the tag moves, all is deleted, and the same is built."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.image.oci.read import layout_tree, read_layout
from reprobuild.infra.tar.reading import read_tar
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.system import Base
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.registry.conftest import PASSWORD, Registry, docker_login, encoded
from tests.registry.pushing import OCI_INDEX, Image, Pusher, layer, make_image, make_index
from tests.system.test_image_base import TOP

NAME = "site/system"
TOKEN = "hf_" + "a1B2c3D4e5" * 3
VARIABLES = [
    "PATH=/opt/vendor/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LD_LIBRARY_PATH=/opt/vendor/lib", "NVIDIA_VISIBLE_DEVICES=all", "OMP_NUM_THREADS=3", "MKL_NUM_THREADS=4",
    f"HF_TOKEN={TOKEN}", "BROKEN=a\nb", "DROPPED=x",
]  # fmt: skip


@pytest.fixture(scope="module")
def pushed(registry: Registry, pusher: Pusher, tree: str, store: Store) -> Image:
    """The image of the tests, behind an index and a tag."""
    made = make_image(
        [(store.blob(tree).read_bytes(), "zstd"), (layer(TOP), "gzip")], variables=VARIABLES,
        Entrypoint=["/vendor"], User="1000", Volumes={"/data": {}},
    )  # fmt: skip
    pusher.push(made, NAME)
    pusher.push_manifest(make_index([made]), OCI_INDEX, NAME, "1")
    return made


@pytest.fixture(scope="module")
def env(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The user's environment with the login."""
    login = docker_login(tmp_path_factory.mktemp("docker"), registry.host)
    return {
        **os.environ,
        **login,
        "HOME": os.environ["HOME"],
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


@pytest.fixture(scope="module")
def snapshot(base: Base, bookworm: SystemIndex, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What was captured: the packages of the image, one more, and a variable of its own."""
    folder = tmp_path_factory.mktemp("snapshot")
    more = bookworm.versions("plocate")[0].version
    lines = ["Listing..."]
    lines += [
        f"{name}/stable,now {version} amd64 [installed,automatic]" for name, version in base.installed.items()
    ]
    lines.append(f"plocate/stable,now {more} amd64 [installed]")
    (folder / "apt-packages.txt").write_text("\n".join(lines) + "\n")
    (folder / "requirements.txt").write_text("")
    (folder / "env.txt").write_text("MKL_NUM_THREADS=1\n")
    return folder


@pytest.fixture(scope="module")
def filled(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the packages, and nothing that was realised."""
    folder = tmp_path_factory.mktemp("filled")
    shutil.copytree(store.root / "blobs", folder / "blobs", copy_function=os.link)
    return folder


def locked(
    reference: str, snapshot: Path, out: Path, store: Path, env: Mapping[str, str], *more: str
) -> tuple[int, str]:
    done = reprobuild(
        "lock",
        snapshot,
        "-o",
        out,
        "--base",
        reference,
        "--store",
        store,
        "--package",
        "plocate",
        "--drop",
        "DROPPED",
        *more,
        env=env,
    )
    assert PASSWORD not in done.stdout + done.stderr
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def lock(
    registry: Registry, pushed: Image, snapshot: Path, filled: Path, env: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:  # fmt: skip
    """A lock on the image by its tag."""
    out = tmp_path_factory.mktemp("lock") / "reprobuild.lock"
    code, said = locked(f"{registry.host}/{NAME}:1", snapshot, out, filled, env, "--accept", "base-variable")
    assert code == 0, said
    return out


def built(lock: Path, out: Path, store: Path, env: Mapping[str, str]) -> Lock:
    done = reprobuild("build", lock, "-o", out, "--store", store, "--offline", env=env)
    assert done.returncode == 0, done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    return read_lock(out / "reprobuild.lock")


def test_the_lock_names_the_image_by_digest_and_decides_its_variables(
    lock: Path, pushed: Image, registry: Registry
) -> None:
    found = read_lock(lock)
    assert found.base.image is not None
    assert found.base.image.reference == f"{registry.host}/{NAME}:1"
    assert found.base.image.digest == pushed.digest
    assert "plocate" in {deb.name for deb in found.base.packages}
    assert "python3.11" not in {deb.name for deb in found.base.packages}
    kept = {setting.name: setting.value for setting in found.base.image.environment}
    assert set(kept) == {"PATH", "LD_LIBRARY_PATH", "NVIDIA_VISIBLE_DEVICES", "OMP_NUM_THREADS"}
    ruled = {r.subject: (r.outcome, r.kind, r.accepted) for r in found.rulings if r.file == "base image"}
    assert ruled["OMP_NUM_THREADS"] == ("replaced", "base-variable", True)
    assert ruled["HF_TOKEN"][:2] == ("excluded", "secret")
    assert ruled["DROPPED"][:2] == ("excluded", "decision")
    assert ruled["MKL_NUM_THREADS"][:2] == ("excluded", "decision")
    assert ruled["BROKEN"][:2] == ("excluded", "session")
    text = lock.read_text()
    assert not [secret for secret in (PASSWORD, encoded(), TOKEN) if secret in text]


def test_a_variable_that_changes_results_must_be_accepted(
    registry: Registry, pushed: Image, snapshot: Path, filled: Path, env: Mapping[str, str], tmp_path: Path
) -> None:
    code, said = locked(f"{registry.host}/{NAME}:1", snapshot, tmp_path / "lock", filled, env)
    assert code == 4
    assert "base image: OMP_NUM_THREADS: replaced (base-variable)" in said
    assert "--accept base-variable" in said


def test_what_was_deleted_after_the_fetch_is_built(
    lock: Path, pushed: Image, pusher: Pusher, filled: Path, env: Mapping[str, str], tmp_path: Path
) -> None:
    """By this user alone; that another one makes the same tree over an image is seen in test_image_base.py."""
    fetched = reprobuild("fetch", lock, "--store", filled, env=env)
    assert fetched.returncode == 0, fetched.stderr
    pusher.push(make_image([(layer([]), "gzip")]), NAME, "1")  # the tag moves
    pusher.delete(pushed, NAME)
    ours = built(lock, tmp_path / "out", filled, env)
    check_image(tmp_path / "out", ours, filled)
    check_empty_store(lock, pushed, env, tmp_path)
    for place in (filled, tmp_path / "out"):
        check_no_secret(place)


def check_image(out: Path, lock: Lock, store: Path) -> None:
    layout = read_layout(out / "image")
    tree = layout_tree(layout)
    assert {"usr/bin/plocate", "opt/vendor/tool", "usr/bin/python3.11", "opt/env"} <= tree.keys()
    assert tree["opt/vendor/tool"].uid == 1000
    assert "etc/issue" not in tree
    config = layout.config["config"]
    variables = dict(pair.partition("=")[::2] for pair in config["Env"])
    assert variables["PATH"].startswith("/opt/env/bin:/opt/vendor/bin:")
    assert variables["LD_LIBRARY_PATH"] == "/opt/vendor/lib"
    assert (variables["OMP_NUM_THREADS"], variables["MKL_NUM_THREADS"]) == ("3", "1")
    assert not {"HF_TOKEN", "BROKEN", "DROPPED"} & variables.keys()
    assert config["Entrypoint"][0] == "/usr/bin/python3.11"
    assert not {"User", "Volumes"} & config.keys()
    image = lock.base.image
    assert image is not None
    for name in ("Dockerfile", "Apptainer.def"):
        text = (out / name).read_text()
        assert f"# The system: the image {image.reference} ({image.digest})," in text
        assert f"with {len(lock.base.packages)} packages that dpkg has put over it once" in text
    assert "FROM scratch" in (out / "Dockerfile").read_text()
    with Store(store).blob(lock.realised.base).open("rb") as stream:
        assert "usr/bin/plocate" in {entry.path for entry, _ in read_tar(stream)}


def check_empty_store(lock: Path, pushed: Image, env: Mapping[str, str], folder: Path) -> None:
    """Check that a store without the image says which one is missing."""
    done = reprobuild("fetch", lock, "--store", folder / "empty", env=env)
    assert done.returncode == 5
    assert f"/v2/{NAME}/blobs/sha256:" in done.stderr
    assert "does not exist (HTTP 404)" in done.stderr
    missing = [digest for digest in pushed.blobs if digest in done.stderr]
    assert missing
    offline = reprobuild(
        "build", lock, "-o", folder / "none", "--store", folder / "none", "--offline", env=env
    )
    assert offline.returncode == 5
    assert "--offline forbids the network" in offline.stderr


def check_no_secret(folder: Path) -> None:
    secrets = [secret.encode() for secret in (PASSWORD, encoded(), TOKEN)]
    for path in (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        content = path.read_bytes() if path.stat().st_size < 1 << 20 else b""
        found = [secret for secret in secrets if secret in content]
        if found == [
            TOKEN.encode()
        ]:  # the vendor's own configuration, which is kept as it is and goes nowhere
            assert json.loads(content)["os"] == "linux"
        else:
            assert not found, path


def test_the_control_finds_a_secret(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(PASSWORD)
    with pytest.raises(AssertionError):
        check_no_secret(tmp_path)
