"""For each place that starts a program, a call that gets there, and the program that is to be seen."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec import Struct

from reprobuild.builders import apptainer as building
from reprobuild.builders import docker as docker_builder
from reprobuild.builders import podman as podman_builder
from reprobuild.capture import launch as capturing
from reprobuild.cluster import slurm, slurm_allocation, slurm_step
from reprobuild.config.overrides import Decisions
from reprobuild.distribute import signing
from reprobuild.distribute.standalone import unbundle
from reprobuild.doctor import host
from reprobuild.ecosystems.apt import apt_config
from reprobuild.ecosystems.conda import linking
from reprobuild.ecosystems.git.repository import GitRepository
from reprobuild.ecosystems.git.restore.remote_bounds import RemoteAllowance
from reprobuild.ecosystems.git.restore.restore import _Restored
from reprobuild.ecosystems.git.restore.room import RestoreAllowance
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.ecosystems.pypi.pip_config import Asking
from reprobuild.engines import apptainer, apptainer_gpus, builtin, builtin_unpack, podman
from reprobuild.engines.builtin_images import UnpackedImage, UnpackedImages, layer_name
from reprobuild.engines.model import Task
from reprobuild.image.formats import squashfs_read, squashfs_write
from reprobuild.infra import proc
from reprobuild.infra.http.client import Net
from reprobuild.infra.sandbox import command, namespaces
from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.resolve import solve_versions
from reprobuild.resolve.ages.dated_indexes import dated_indexes
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.cuda import nvidia_smi
from reprobuild.resolve.interpreter import local, standalone
from reprobuild.resolve.python.context import make_file_lists
from reprobuild.run import slurm as running_slurm
from reprobuild.snapshot.capture_model import CapturedRepository as Captured
from reprobuild.snapshot.capture_model import Diff
from reprobuild.snapshot.importers import uv_lock
from reprobuild.store.store import Store
from tests.starts.scene import Scene

JOB = slurm_step.SlurmJob(number="7", nodes=("n1",))
TASK = Task(arguments=("true",))
ROOT = TarEntry(path="", type="dir", mode=0o755)


def nothing(*_: object) -> None:
    """Take what is said, and keep none of it."""


class Row(Struct, frozen=True):
    """A call, and the name of the program that it starts."""

    program: str
    call: Callable[[Scene], object]


def around(scene: Scene) -> ResolveContext:
    """Return what resolving is given."""
    return ResolveContext(
        store=Store(scene.folder / "store"), net=Net(offline=True), env=scene.env, folder=scene.folder, now=0,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}), say=nothing,
    )  # fmt: skip


def empty(scene: Scene, name: str) -> Path:
    """Return a new directory away from the decoys."""
    folder = scene.folder / name
    folder.mkdir()
    return folder


def ask_pip(scene: Scene) -> None:
    """Ask pip, which must answer."""
    with Asking(scene.env) as asking:
        assert asking.answer()[0].startswith("http")


def bring(scene: Scene) -> object:
    """Let uv bring a build of Python; it has no network."""
    build = standalone._Listed(version="3.11.7", url="", implementation="cpython", variant="default")
    return standalone._fetch_build(build, "x86_64", "https://example.org/python.tar.gz", around(scene))


def list_builds(scene: Scene) -> None:
    """Let uv list builds of Python, which it must."""
    assert standalone._list_builds("3.11", "x86_64", scene.env, plain=False)


def export_lock(scene: Scene) -> None:
    """Let uv read a lock, which it must."""
    document = {"version": 1, "requires-python": ">=3.10"}
    assert uv_lock._export(b'version = 1\nrequires-python = ">=3.10"\n', document, "uv.lock") == ""


def choose_versions(scene: Scene) -> None:
    """Let uv choose versions for no requirement, which it must."""
    context = around(scene)
    files = make_file_lists(Decisions(), context.services, context)
    moment, target = "2024-01-15T00:00:00Z", ("3.11.2", "x86_64")
    with dated_indexes(moment, [], files, context, target) as dated:
        assert solve_versions.solve_versions([], moment, *target, files, context, dated) == {}


def listen(scene: Scene) -> object:
    """Fetch from a repository of git."""
    repository = GitRepository(empty(scene, "scratch"), scene.env)
    return repository.fetch_local(scene.decoys.place)


def restored(scene: Scene) -> object:
    """Ask git in a restored repository."""
    folder = empty(scene, "restored")
    one = Captured(
        name="one", folder="/x", object_format="sha1", head=None, branch=None, remotes=(), base=None, prerequisites=(),
        index="", worktree="", bundle=None, diff=Diff(file=None, start=""),
        unmerged=(), flags={}, settings={}, attributes="", shallow=(), left_out=(), parent=None, path="",
    )  # fmt: skip
    restored = _Restored(one, folder, folder, scene.env, RestoreAllowance(), RemoteAllowance())
    restored._init()
    return restored.git("status", purpose="test")


def follow(scene: Scene) -> object:
    """Run a container of Apptainer: its image is in the cache."""
    cache = apptainer.Cache.open_user_cache(scene.env)
    digest = "sha256:" + 64 * "a"
    (cache.folder / f"{64 * 'a'}.sif").touch()
    (cache.folder / f"{64 * 'a'}.json").write_text(
        json.dumps({"manifest": digest, "config": digest, "workdir": "/", "sha256": "", "size": 0})
    )
    cache.call("x", digest)
    return apptainer.run("x", TASK, scene.env)


def run_in_root(scene: Scene) -> object:
    """Run a command in the machine's own root."""
    root = Root(folder=empty(scene, "root"))
    return command.run_in_root(root, ["true"], epoch=0, purpose="test")


def feed(scene: Scene) -> object:
    """Write a squashfs."""
    return squashfs_write.write_squashfs([b""], scene.folder / "x", root=ROOT, epoch=0, env=scene.env)


def read_squashed(scene: Scene) -> object:
    """Read a squashfs whose tables hold an empty directory alone, not packed."""
    path = scene.folder / "x.sqsh"
    inode = struct.pack("<4H2I2I2HI", 1, 0o755, 0, 0, 0, 1, 0, 2, 3, 0, 2)
    table = struct.pack("<H", 0x8000 | len(inode)) + inode
    places = (0, 0, 0, 0, 96, 96 + len(table), 0, 0)
    path.write_bytes(struct.pack("<4s4I6H8Q", b"hsqs", 1, 0, 1 << 17, 0, 1, 17, 0, 1, 4, 0, *places) + table)
    return squashfs_read.open_squashed(path, empty(scene, "scratch"), scene.env)


def run_capture(scene: Scene) -> None:
    """Capture, by a Python of the environment, a directory with a repository."""
    out = scene.folder / "snapshot"
    env = {name: value for name, value in scene.env.items() if not name.startswith("PYTHON")}
    python = str(scene.programs / "python3")
    assert capturing.capture(python, out, env=env, sink=nothing, as_json=False) == 0
    assert (
        f"PATH={scene.path}\0".encode() in (out / "env.nul").read_bytes()
    )  # of the environment nothing is changed


def contain(scene: Scene) -> object:
    """Run a container of the built-in engine: its image is in the cache, with one empty layer."""
    images = UnpackedImages.open_user_cache(scene.env)
    layer, digest = 64 * "b", f"sha256:{64 * 'a'}"
    folder = images.folder / "layers" / layer_name(layer)
    folder.mkdir()
    images._counts.note(folder)
    image = UnpackedImage(
        manifest=digest, config=digest, layers=(layer,), env=(), entrypoint=(), cmd=(), workdir="/", user=""
    )
    images._records.write(image)
    images._records.call("x", digest)
    return builtin.run("x", TASK, scene.env)


def unpack(scene: Scene) -> object:
    """Unpack a layer without members."""
    layout: Any = SimpleNamespace(
        layers=[("", "", "")], folder=scene.folder, blob=lambda _: scene.folder / "blob"
    )
    allowance: Any = None
    scene.monkeypatch.setattr(builtin_unpack, "_refuse_repeats", nothing)
    scene.monkeypatch.setattr(builtin_unpack, "_read_pieces", lambda *_: ())
    return builtin_unpack.unpack_layer(layout, 0, scene.folder / "layer", allowance, allowance)


def granted(scene: Scene) -> None:
    """Ask Slurm for a node."""
    with slurm_allocation.allocate_nodes(slurm_allocation.JobRequest(nodes=1), scene.env, nothing):
        pass


def docker_run(scene: Scene) -> object:
    """Run a command of Docker."""
    return docker_builder._run(["buildx", "build", "."], scene.env)


def load(scene: Scene) -> object:
    """Load an image as unbundle.py does."""
    try:
        return unbundle._engine(["podman", "load"], str(scene.folder))
    except unbundle.RefusedError:
        return None


def build_apptainer(scene: Scene) -> object:
    """Build a definition in a directory."""
    return building._build("apptainer", scene.folder / "root", scene.folder, (), scene.env)


def apt_target() -> apt_config.AptTarget:
    """Return a source of apt."""
    return apt_config.AptTarget(
        uri="http://example.org/debian", release="stable", codename="", component="main", path="", entry=""
    )


STATEMENTS = ["-f", "/dev/null", "-n", "x", "-s", "/dev/null"]
_APT = "reprobuild/ecosystems/apt/apt_config.py"
_BUILD = "reprobuild/builders"
_ENGINE = "reprobuild/engines"
ROWS = {
    f"{_APT}:_update_lists": Row(
        "apt-config", lambda s: apt_config._update_lists([apt_target()], s.env, empty(s, "apt"), ("amd64",))
    ),
    f"{_APT}:configured_targets": Row("apt-get", lambda s: apt_config.configured_targets(s.env, ("amd64",))),
    f"{_BUILD}/apptainer.py:_build": Row("unshare", build_apptainer),
    f"{_BUILD}/apptainer.py:_pack_sandbox": Row(
        "tar", lambda s: building._pack_sandbox(s.folder, s.folder / "x.tar", (), s.env)
    ),
    f"{_BUILD}/apptainer.py:_remove": Row(
        "rm", lambda s: building._remove(empty(s, "gone"), ("--user", "--map-root-user"), s.env)
    ),
    f"{_BUILD}/apptainer.py:_select_rights": Row("unshare", lambda s: building._select_rights(s.env)),
    f"{_BUILD}/docker.py:_buildx_version": Row("docker", lambda s: docker_builder._buildx_version(s.env)),
    f"{_BUILD}/docker.py:_buildx_driver": Row("docker", lambda s: docker_builder._buildx_driver(s.env)),
    f"{_BUILD}/docker.py:_legacy_build_command": Row(
        "docker", lambda s: docker_builder._legacy_build_command(s.env)
    ),
    f"{_BUILD}/docker.py:_run": Row("docker", docker_run),
    f"{_BUILD}/podman.py:_build_dockerfile": Row(
        "podman",
        lambda s: podman_builder._build_dockerfile(s.folder, s.folder / "id", "linux/amd64", 0, s.env),
    ),
    "reprobuild/capture/launch.py:capture": Row("python3", run_capture),
    "reprobuild/capture/launch.py:pack_interpreter": Row(
        "own-python", lambda s: capturing.pack_interpreter(Path(sys.executable), empty(s, "packed"), s.env)
    ),
    "reprobuild_runtime/capture.py:_run": Row("git", run_capture),
    "reprobuild/ecosystems/conda/linking.py:run_rattler": Row(
        "own-python", lambda s: linking.run_rattler({}, empty(s, "rattler"), "test")
    ),
    "reprobuild/doctor/host.py:_read_complaint": Row(
        "docker", lambda s: host._read_complaint("docker", "docker", s.env)
    ),
    f"{_ENGINE}/builtin.py:_follow": Row("own-python", contain),
    f"{_ENGINE}/builtin.py:_copy_tree": Row(
        "cp", lambda s: builtin._copy_tree([empty(s, "layer")], empty(s, "copy"))
    ),
    f"{_ENGINE}/builtin_unpack.py:unpack_layer": Row("tar", unpack),
    f"{_ENGINE}/apptainer.py:_follow": Row("apptainer", follow),
    f"{_ENGINE}/apptainer.py:_find_program": Row("apptainer", lambda s: apptainer.version(s.env)),
    f"{_ENGINE}/apptainer_gpus.py:check_gpus": Row(
        "apptainer", lambda s: apptainer_gpus.check_gpus(["apptainer", "exec"], s.folder / "x", "all", s.env)
    ),
    f"{_ENGINE}/podman.py:_find_image_id": Row("podman", lambda s: podman._find_image_id("x", s.env)),
    f"{_ENGINE}/podman.py:_collect_outputs": Row(
        "podman", lambda s: podman._collect_outputs("x", TASK, s.env)
    ),
    f"{_ENGINE}/podman.py:_start": Row("podman", lambda s: podman._start("x", TASK, s.env, nothing)),
    f"{_ENGINE}/podman.py:run_podman": Row(
        "podman", lambda s: podman.run_podman(s.env, "info", purpose="test")
    ),
    f"{_ENGINE}/podman.py:version": Row("podman", lambda s: podman.version(s.env)),
    "reprobuild/cluster/slurm_allocation.py:_open_allocation": Row("salloc", granted),
    "reprobuild/cluster/slurm.py:run_slurm": Row("squeue", lambda s: slurm.run_slurm("squeue", env=s.env)),
    "reprobuild/cluster/slurm.py:cancel_job": Row("scancel", lambda s: slurm.cancel_job("7", s.env)),
    "reprobuild/cluster/slurm_step.py:_run_srun": Row(
        "srun",
        lambda s: slurm_step._run_srun(
            JOB, 1, proc.own_module("reprobuild.cli"), s.folder, s.env, deadline=60, patience=0
        ),
    ),
    "reprobuild/image/formats/squashfs_write.py:find_program": Row(
        "mksquashfs", lambda s: squashfs_write.find_program(s.env)
    ),
    "reprobuild/image/formats/squashfs_write.py:write_squashfs": Row("mksquashfs", feed),
    "reprobuild/image/formats/squashfs_read.py:_run_bounded": Row("sqfs2tar", read_squashed),
    "reprobuild/resolve/cuda/nvidia_smi.py:query_gpus": Row(
        "nvidia-smi", lambda s: nvidia_smi.query_gpus(s.env)
    ),
    "reprobuild/infra/proc/own_python.py:check_installed": Row(
        "own-python", lambda s: proc.check_installed()
    ),
    "reprobuild/ecosystems/pypi/pip_config.py:Asking.__init__": Row("own-python", ask_pip),
    "reprobuild/resolve/interpreter/local.py:_query_interpreter": Row(
        "own-python", lambda s: local._query_interpreter(Path(sys.executable))
    ),
    "reprobuild/resolve/interpreter/standalone.py:_fetch_build": Row("own-python", bring),
    "reprobuild/resolve/interpreter/standalone.py:_list_builds": Row("own-python", list_builds),
    "reprobuild/resolve/solve_versions.py:solve_versions": Row("own-python", choose_versions),
    "reprobuild/snapshot/importers/uv_lock.py:_export": Row("own-python", export_lock),
    "reprobuild/ecosystems/git/repository.py:GitRepository._git": Row("git", listen),
    "reprobuild/ecosystems/git/restore/restore.py:_Restored.git": Row("git", restored),
    "reprobuild/infra/git/command.py:_effective_address": Row("git", listen),
    "reprobuild/infra/git/command.py:_fetch": Row("git", listen),
    "reprobuild/run/slurm.py:has_pyxis": Row("srun", lambda s: running_slurm.has_pyxis(s.env)),
    "reprobuild/run/slurm.py:start": Row(
        "srun", lambda s: running_slurm.start(["srun", "true"], s.env, nothing)
    ),
    "reprobuild/infra/sandbox/command.py:run_in_root": Row("own-python", run_in_root),
    "reprobuild/infra/sandbox/namespaces.py:can_mount_overlay": Row(
        "unshare", lambda s: namespaces.can_mount_overlay()
    ),
    "reprobuild/infra/sandbox/namespaces.py:can_mount_proc": Row(
        "unshare", lambda s: namespaces.can_mount_proc()
    ),
    "reprobuild/infra/sandbox/namespaces.py:check_namespaces": Row(
        "unshare", lambda s: namespaces.check_namespaces()
    ),
    "reprobuild/distribute/standalone/unbundle.py:_engine": Row("podman", load),
    "reprobuild/distribute/standalone/unbundle.py:run_keygen": Row(
        "ssh-keygen", lambda s: unbundle.run_keygen(["check-novalidate", *STATEMENTS], b"")
    ),
    "reprobuild/distribute/signing.py:make_keygen.look": Row(
        "ssh-keygen", lambda s: signing.make_keygen(s.env)(["check-novalidate", *STATEMENTS], b"")
    ),
    "reprobuild/distribute/signing.py:sign": Row(
        "ssh-keygen", lambda s: signing.sign(b"", Path("/nonexistent"), s.env)
    ),
}
