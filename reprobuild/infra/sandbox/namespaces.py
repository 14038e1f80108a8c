"""The check if this machine allows the sandbox's namespaces."""

from __future__ import annotations

from reprobuild.errors import EngineError
from reprobuild.infra.proc import run
from reprobuild.infra.proc.errors import ProcessFailedError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HINT = (
    "user namespaces must be allowed: on Debian and Ubuntu look at the settings "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns and "
    "user.max_user_namespaces; in a container, start it with `--security-opt seccomp=unconfined`, or run "
    "`reprobuild` outside"
)
_NAMESPACES = (
    "--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child",
)  # fmt: skip


def check_namespaces() -> None:
    """Check that this machine lets the caller make namespaces.

    Raises:
        EngineError: it does not; the hint names the settings.
    """
    try:
        run(
            ["unshare", *_NAMESPACES, "--", "true"], env={"PATH": PATH, "LC_ALL": "C"},
            purpose="isolate a command from the network", hint="install util-linux",
        )  # fmt: skip
    except ProcessFailedError as err:
        raise EngineError(
            f"this machine does not let the user make namespaces: {err.stderr.strip()}", hint=_HINT
        ) from None


_TRY = """
set -eu
mount -n -t tmpfs tmpfs /tmp
cd /tmp
mkdir lower upper work merged
mount -n -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
: > merged/written
"""


def can_mount_overlay() -> bool:
    """Return whether a user namespace may mount an overlay here.

    It needs Linux 5.11 or newer, and no setting against it.
    """
    try:
        run(
            ["unshare", *_NAMESPACES, "--", "sh", "-c", _TRY], env={"PATH": PATH, "LC_ALL": "C"},
            purpose="try an overlay", hint="install util-linux",
        )  # fmt: skip
    except ProcessFailedError:
        return False
    return True


def can_mount_proc() -> bool:
    """Return whether a user namespace may mount a /proc of its own here.

    In most containers it may not, because a part of the machine's /proc is covered.
    """
    try:
        run(
            ["unshare", *_NAMESPACES, "--", "mount", "-n", "-t", "proc", "proc", "/proc"],
            env={"PATH": PATH, "LC_ALL": "C"}, purpose="try a /proc", hint="install util-linux",
        )  # fmt: skip
    except ProcessFailedError:
        return False
    return True
