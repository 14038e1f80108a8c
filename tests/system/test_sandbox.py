"""The sandbox, as this user and as an ordinary one, on a realised base."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reprobuild.errors import EngineError
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.sandbox import namespaces
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.infra.sandbox.namespaces import PATH, can_mount_overlay
from reprobuild.realise.rootfs import _state
from tests.system.samples import EPOCH, ORDINARY_USER

CHECKOUT = Path(__file__).resolve().parents[2]


def inside(root: Path, script: str, *, layered: bool = False, **options: object) -> str:
    argv = ["/bin/sh", "-c", script]
    place = Root(folder=root, layered=layered)
    return run_in_root(place, argv, epoch=EPOCH, purpose="look", **options).decode()


# What holds with the directory itself as the root holds with a layer over it.
BOTH = pytest.mark.parametrize("layered", [False, True])


def test_the_environment_is_constant(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    previous = os.umask(0o077)
    try:
        told = inside(root, "env | sort; umask; hostname; pwd; id -u; id -g", env={"EXTRA": "a b"})
    finally:
        os.umask(previous)
    assert told.splitlines() == [
        "EXTRA=a b", "HOME=/root", f"PATH={PATH}", "PWD=/", f"SOURCE_DATE_EPOCH={EPOCH}", "0022", "reprobuild",
        "/", "0", "0",
    ]  # fmt: skip


@BOTH
def test_no_process_shows_where_the_root_is(root: Path, layered: bool) -> None:
    shown = inside(root, "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null || :", layered=layered)
    assert str(root) not in shown
    assert root.name not in shown


def test_there_is_no_network(root: Path) -> None:
    connect = (
        "import socket, sys\n"
        "for address in (('1.1.1.1', 53), ('127.0.0.1', 22)):\n"
        "    try: socket.create_connection(address, 5)\n"
        "    except OSError as err: print(err.errno)\n"
    )
    told = run_in_root(
        Root(folder=root), ["python3.11", "-c", connect], epoch=EPOCH, purpose="try the network"
    ).decode()
    assert told.split() == ["101", "101"]  # ENETUNREACH
    interfaces = inside(root, "tail -n +3 /proc/net/dev | cut -d: -f1")
    assert interfaces.split() == ["lo"]


def test_the_host_can_reach_the_network(root: Path) -> None:
    """The control of the test above: outside of the sandbox there is more than the loopback."""
    assert len(Path("/proc/net/dev").read_text().splitlines()) > 3
    assert root.is_dir()


@BOTH
def test_the_hosts_files_and_processes_are_out_of_reach(root: Path, layered: bool) -> None:
    place = Root(folder=root, layered=layered)
    told = inside(root, layered=layered, script=f"ls /; test ! -e {CHECKOUT} && echo gone")
    assert told.split()[-1] == "gone"
    escape = (
        "import os\n"
        "os.makedirs('/tmp/x', exist_ok=True)\n"
        "os.chroot('/tmp/x')\n"
        "for _ in range(64): os.chdir('..')\n"
        "os.chroot('.')\n"
        f"print(os.path.exists({str(CHECKOUT)!r}), os.path.exists('/usr/bin/env'))\n"
    )
    told = run_in_root(place, ["python3.11", "-c", escape], epoch=EPOCH, purpose="try to escape").decode()
    assert told.split() == ["False", "True"]
    unmount = (
        "import ctypes, os\n"
        "if ctypes.CDLL(None, use_errno=True).umount2(b'/', 2):\n"
        "    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n"
    )
    with pytest.raises(ProcessFailedError, match="Operation not permitted"):
        run_in_root(place, ["python3.11", "-c", unmount], epoch=EPOCH, purpose="try to unmount")


def test_the_settings_of_the_kernel_are_out_of_reach(root: Path) -> None:
    """They belong to user 0 of the machine, who is also the one inside where root runs the sandbox."""
    name = "/proc/sys/kernel/printk_ratelimit"
    before = Path(name).read_text()
    opened = (
        "import os, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try: os.close(os.open(name, os.O_WRONLY))\n"  # opened alone, and not written to
        "    except OSError as err: print(err.strerror)\n"
        "    else: print('opened')\n"
    )
    some = (name, "/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness", "/proc/sysrq-trigger")
    names = [name for name in some if Path(name).exists()]
    assert len(names) >= 2
    told = run_in_root(
        Root(folder=root), ["python3.11", "-c", opened, *names], epoch=EPOCH, purpose="try"
    ).decode()
    assert told.splitlines() == ["Read-only file system"] * len(names)
    inner = "unshare --user --map-root-user --mount sh -c 'mount -o remount,bind,rw /proc/sys || umount /proc/sys'"
    with pytest.raises(ProcessFailedError):
        inside(root, inner)
    assert Path(name).read_text() == before


def test_devices_work_and_others_are_absent(root: Path) -> None:
    told = inside(
        root, "ls /dev; head -c 3 /dev/zero | wc -c; echo x > /dev/null; head -c 2 /dev/urandom | wc -c"
    )
    assert told.split() == [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero", "3", "2",
    ]  # fmt: skip


@BOTH
def test_binds_are_read_only_unless_writable(root: Path, tmp_path: Path, layered: bool) -> None:
    (tmp_path / "file").write_text("from the host")
    (tmp_path / "out").mkdir()
    binds = [
        Bind(source=tmp_path, target="/mnt/in"),
        Bind(source=tmp_path / "file", target="/mnt/one"),
        Bind(source=tmp_path / "out", target="/run/deep/out", writable=True),
    ]
    told = inside(
        root,
        "cat /mnt/in/file /mnt/one; echo x > /mnt/in/new || echo refused; echo x > /mnt/one || echo refused;"
        "echo hello > /run/deep/out/made",
        binds=binds,
        layered=layered,
    )
    assert told == "from the hostfrom the hostrefused\nrefused\n"
    assert (tmp_path / "out/made").read_text() == "hello\n"
    assert (tmp_path / "out/made").stat().st_uid == os.geteuid()


def test_a_mount_with_locked_flags_can_be_bound(root: Path) -> None:
    shared = Path("/dev/shm")
    told = inside(root, "test -d /mnt/shm && echo yes", binds=[Bind(source=shared, target="/mnt/shm")])
    assert told == "yes\n"


def test_a_layer_takes_what_is_written_and_the_folder_stays(root: Path, tmp_path: Path) -> None:
    assert can_mount_overlay()
    before = _state(root)
    told = inside(
        root, "echo x > /opt/new; rm -r /usr/share/doc; echo y >> /etc/passwd; cat /opt/new; tail -1 /etc/passwd",
        layered=True, binds=[Bind(source=tmp_path, target="/never/there/before")],
    )  # fmt: skip
    assert told.split() == ["x", "y"]
    assert _state(root) == before


def test_where_nothing_can_be_layered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_TRY", "exit 1")
    assert not can_mount_overlay()


def test_temporary_folders_vanish_and_the_root_keeps(root: Path) -> None:
    inside(root, "touch /tmp/a /run/b /dev/shm/c /opt/kept")
    assert (root / "opt/kept").is_file()
    assert not list((root / "tmp").iterdir())
    assert not list((root / "run").iterdir())
    assert not list((root / "dev").iterdir())
    (root / "opt/kept").unlink()


def test_input_folder_and_exit_code_pass(root: Path) -> None:
    assert run_in_root(Root(folder=root), ["cat"], epoch=EPOCH, purpose="copy", stdin=b"x\0y") == b"x\0y"
    assert inside(root, "pwd", cwd="/usr/lib") == "/usr/lib\n"
    with pytest.raises(ProcessFailedError, match=r"(?s)could not look.*told you so") as err:
        inside(root, "echo told you so >&2; exit 7")
    assert err.value.code == 7


def test_values_are_never_read_as_shell(root: Path) -> None:
    odd = "$(touch /opt/pwned); `x` ' \" \\ \n*"
    told = run_in_root(
        Root(folder=root), ["printenv", "ODD"], epoch=EPOCH, purpose="tell", env={"ODD": odd}
    ).decode()
    assert told == odd + "\n"
    assert not (root / "opt/pwned").exists()


def test_nothing_is_left_when_the_time_is_over(root: Path) -> None:
    with pytest.raises(EngineError, match="did not end within"):
        inside(root, "setsid sleep 98765 & sleep 98765", timeout=1)
    deadline = time.monotonic() + 10
    while _sleepers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _sleepers()
    assert str(root) not in Path("/proc/self/mountinfo").read_text()
    assert not list((root / "dev").iterdir())


def run_as_ordinary_user(script: str, *arguments: Path) -> str:
    """Return what a script of our program prints as the ordinary user."""
    done = subprocess.run(
        [*ORDINARY_USER, sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_bomb_of_processes_ends_at_the_limit_for_an_ordinary_user(
    tree: str, store_blob: Path, shared_tmp: Path
) -> None:
    script = (
        "import sys; from pathlib import Path; from reprobuild.infra.sandbox import command\n"
        "from reprobuild.infra.sandbox.model import Root\n"
        "from reprobuild.infra.sandbox.command import run_in_root\n"
        "from reprobuild.realise.unpack import unpack_root; command.PROCESSES = 50\n"
        "root = Path(sys.argv[2]) / 'root'; root.mkdir(); unpack_root(Path(sys.argv[1]), root)\n"
        "bomb = 'for (1 .. 500) { my $p = fork; if (!defined $p) { print qq($_ $!); exit }'\n"
        "bomb += ' if (!$p) { sleep 98765 } }'\n"
        "place = Root(folder=root)\n"
        "print(run_in_root(place, ['perl', '-e', bomb], epoch=0, purpose='bomb').decode())\n"
    )
    said = run_as_ordinary_user(script, store_blob, shared_tmp)
    count, _, why = said.strip().partition(" ")
    assert int(count) <= 50
    assert why == "Resource temporarily unavailable"
    assert not _sleepers()


def _sleepers() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"98765\0" in path.read_bytes() and b"sleep\0" in path.read_bytes()[:6]:
                found.append(str(path))
        except OSError:
            continue
    return found


def test_the_hosts_mount_table_file_is_not_touched(root: Path) -> None:
    table = Path("/run/mount/utab")
    inside(root, "true", binds=[Bind(source=root / "etc", target="/mnt/etc")])
    assert not table.exists() or str(root) not in table.read_text()


def test_links_out_of_the_root_are_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/mnt").symlink_to("/etc")
    with pytest.raises(EngineError, match="/mnt/x is a symbolic link out of the root") as err:
        inside(tmp_path / "root", "true", binds=[Bind(source=tmp_path, target="/mnt/x")])
    assert err.value.hint == "leave out the package that made it, or unpack the root again"
    (tmp_path / "root/tmp").symlink_to("/home")
    with pytest.raises(EngineError, match="/tmp is a symbolic link out of the root"):
        inside(tmp_path / "root", "true")


@pytest.mark.parametrize("target", ["relative", "/a/../../b"])
def test_targets_outside_are_refused(root: Path, target: str) -> None:
    with pytest.raises(ValueError, match="not an absolute path inside"):
        inside(root, "true", binds=[Bind(source=root, target=target)])


def test_what_would_confuse_env_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match="not a variable name"):
        inside(root, "true", env={"A=B": "c"})
    for argv in (["A=B"], ["-i"], []):
        with pytest.raises(ValueError, match="not a program"):
            run_in_root(Root(folder=root), argv, epoch=EPOCH, purpose="look")


def test_a_host_without_user_namespaces_is_told_what_to_do(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "unshare"
    fake.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(namespaces, "PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(EngineError, match="does not let the user make namespaces: unshare failed") as err:
        inside(root, "true")
    assert err.value.hint == (
        "user namespaces must be allowed: on Debian and Ubuntu look at the settings "
        "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns and "
        "user.max_user_namespaces; in a container, start it with `--security-opt seccomp=unconfined`, or run "
        "`reprobuild` outside"
    )
    monkeypatch.setattr(namespaces, "PATH", str(tmp_path / "nothing"))
    with pytest.raises(EngineError, match="`unshare` is not on PATH") as err:
        inside(root, "true")
    assert err.value.hint == "install util-linux"


def test_it_works_for_an_ordinary_user(tree: str, store_blob: Path, shared_tmp: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from reprobuild.realise.unpack import unpack_root; from reprobuild.infra.sandbox.model import Root\n"
        "from reprobuild.infra.sandbox.command import run_in_root\n"
        "root = Path(sys.argv[2]) / 'root'; root.mkdir(); unpack_root(Path(sys.argv[1]), root)\n"
        "look = ['sh', '-c', 'id -u; hostname; tail -n +3 /proc/net/dev | cut -d: -f1; echo x > /opt/x']\n"
        "for layered in (True, False):\n"
        "    assert not (root / 'opt/x').exists()\n"
        "    place = Root(folder=root, layered=layered)\n"
        "    print(run_in_root(place, look, epoch=0, purpose='look').decode())\n"
    )
    said = run_as_ordinary_user(script, store_blob, shared_tmp)
    assert said.split() == ["0", "reprobuild", "lo"] * 2
    assert {path.lstat().st_uid for path in (shared_tmp / "root").rglob("*")} == {12345}
