"""Process 1 of a container: signals, orphans, and exit code.

A process can also become the command.
"""

import errno
import os
import signal

from reprobuild_runtime.settings import print_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional

# Signals that the kernel raises for this process itself, and those that cannot be caught.
_NOT_FORWARDED = {
    "SIGKILL", "SIGSTOP", "SIGCHLD", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGABRT", "SIGSYS",
    "SIGTTIN", "SIGTTOU", "SIGPIPE", "SIGXFSZ",
}  # fmt: skip
# Signals that a terminal sends to the whole foreground group, so that the command has them already.
_FROM_TERMINAL = {signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH}
_SI_KERNEL = 0x80  # si_code of a signal that the kernel sent, sigaction(2)


def replace_process(command: "List[str]") -> int:
    """Replace this process by the command.

    If that fails, print a line to stderr, and return 126 or 127.
    """
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and so would the command after exec
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except (OSError, ValueError) as err:
        missing = not isinstance(err, OSError) or err.errno in (errno.ENOENT, errno.ENOTDIR)
        if missing and os.path.exists(command[0]):
            print_line(f"reprobuild: error: {command[0]}: the interpreter that it names is not there")
        else:
            print_line(f"reprobuild: error: {command[0]}: " + ("not found" if missing else str(err)))
        return 127 if missing else 126


def look_after(command: "List[str]", begun: "Callable[[int], None]" = lambda child: None) -> int:
    """Run the command as a child; return its exit code.

    The code is 128 + N if signal N ended it.

    The child stays in this session and process group, so a shell in it controls the terminal as usual.

    Args:
        begun: called with the number of the child's process.
    """
    # Python has names for the first and the last real-time signal only; those between are numbers.
    forwarded = {s for s in signal.valid_signals() if getattr(s, "name", "") not in _NOT_FORWARDED}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, forwarded | {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        code = 126
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            code = replace_process(command)
        finally:
            os._exit(code)
    begun(child)
    while True:
        info = signal.sigwaitinfo(forwarded | {signal.SIGCHLD})
        if info.si_signo == signal.SIGCHLD:
            status = _reap(child)
            if status is not None:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        elif not (info.si_code == _SI_KERNEL and info.si_signo in _FROM_TERMINAL):
            os.kill(child, info.si_signo)  # it exists, or is a zombie: only _reap removes it


def _reap(child: int) -> "Optional[int]":
    """Reap all ended processes.

    Return the child's status if it was among them.
    """
    child_status = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return child_status
        if pid == 0:
            return child_status
        if pid == child:
            child_status = status
