"""What hostile code would try in the sandbox, one probe each. Runs there and, as a control, outside; standard library.

`python probes.py FACTS` prints JSON, {name: "held ..." or "broke ..."}. FACTS is JSON: what is outside, and the numbers
of system calls. A call that must be refused is made with arguments that do no harm: any other answer than that
refusal shows that the kernel has looked at it.
"""

import ctypes
import errno
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
PROBES = {}
FACTS = {}
NEW = {"user": 0x10000000, "mount": 0x00020000, "pid": 0x20000000, "net": 0x40000000}


class HeldError(Exception):
    """The attempt came to nothing."""


def probe(function):
    PROBES[function.__name__] = function
    return function


def call(name, *arguments, held=(errno.EPERM,)):
    """Make a system call; it is held where its error is one of `held`."""
    result = LIBC.syscall(FACTS["numbers"][name], *arguments)
    code = ctypes.get_errno() if result < 0 else 0
    if code in held:
        raise HeldError(errno.errorcode[code])
    return f"{name}: {errno.errorcode[code] if code else result}"


def call_probes():
    """Yield a probe for each system call that is refused whatever its arguments: none of these does harm."""
    bad, text = -1, b"/nonexistent"
    harmless = {
        "acct": (text,), "add_key": (b"user", b"probe", b"x", 1, -2), "adjtimex": (bytes(256),),
        "bpf": (0, None, 0), "clock_adjtime": (0, None), "clock_settime": (0, None), "delete_module": (b"probe", 0),
        "fanotify_init": (0, 0), "finit_module": (bad, b"", 0), "fsconfig": (bad, 0, None, None, 0),
        "fsmount": (bad, 0, 0), "fsopen": (b"tmpfs", 0), "fspick": (bad, b".", 0), "init_module": (None, 0, b""),
        "kcmp": (os.getpid(), os.getpid(), 0, 0, 0), "kexec_load": (0, 0, None, 0xFFFFFFFF), "keyctl": (0, -3, 0),
        "mount": (None, text, None, 0, None), "mount_setattr": (bad, b"", 0, None, 0),
        "move_mount": (bad, b"", bad, b"", 0), "open_by_handle_at": (bad, None, 0), "open_tree": (-100, b"/", 0),
        "perf_event_open": (None, 0, -1, -1, 0), "pidfd_getfd": (bad, 0, 0), "pivot_root": (text, text),
        "process_madvise": (bad, None, 0, 0, 0), "process_vm_readv": (os.getpid(), None, 0, None, 0, 0),
        "process_vm_writev": (os.getpid(), None, 0, None, 0, 0), "ptrace": (0x4200, 0, 0, 0),
        "quotactl": (0xFFFFFF, None, 0, None), "reboot": (0, 0, 0, None), "request_key": (b"user", b"probe", None, 0),
        "setns": (bad, 0), "settimeofday": (None, None), "swapoff": (text,), "swapon": (text, 0),
        "syslog": (10, None, 0),
        "umount2": (text, 0), "userfaultfd": (0,),
    }  # fmt: skip
    for name, arguments in harmless.items():
        yield f"call_{name}", (lambda name=name, arguments=arguments: call(name, *arguments))
    for name in ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"):
        yield f"call_{name}", (lambda name=name: call(name, -1, None, 0, 0, 0, 0, held=(errno.ENOSYS,)))


# --- processes, namespaces ----------------------------------------------------------------------------


def forked(action):
    """Return what an action says in a process of its own, which it may change as it likes."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = "broke " + str(action())
        except (HeldError, OSError) as err:
            answer = f"held {err}"
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as stream:
        answer = stream.read().decode()
    os.waitpid(child, 0)
    if not answer.startswith("broke"):
        raise HeldError(answer)
    return answer


@probe
def namespace_of_users():
    return forked(lambda: call("unshare", NEW["user"]))


@probe
def namespace_of_mounts():
    return forked(lambda: call("unshare", NEW["mount"]))


@probe
def namespace_of_networks():
    return forked(lambda: call("unshare", NEW["net"]))


@probe
def namespace_of_times():
    return forked(lambda: call("unshare", 0x80))


@probe
def namespace_by_clone():
    child = LIBC.syscall(FACTS["numbers"]["clone"], NEW["user"] | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child < 0:
        raise HeldError(os.strerror(ctypes.get_errno()))
    os.waitpid(child, 0)
    return child


@probe
def remount_in_a_nested_namespace():
    def attempt():
        call("unshare", NEW["user"] | NEW["mount"])
        if LIBC.mount(b"tmpfs", b"/mnt", b"tmpfs", 0, None):
            raise HeldError(os.strerror(ctypes.get_errno()))
        return "mounted"

    return forked(attempt)


@probe
def namespaces_of_process_1():
    found = []
    for name in ("mnt", "net", "pid", "ipc", "uts", "user"):
        descriptor = os.open(f"/proc/1/ns/{name}", os.O_RDONLY)
        if LIBC.setns(descriptor, 0) == 0:
            found.append(name)
    if not found:
        raise HeldError("setns")
    return found


@probe
def trace_of_a_child():
    def attempt():
        if LIBC.ptrace(0, 0, 0, 0):  # PTRACE_TRACEME
            raise HeldError(os.strerror(ctypes.get_errno()))
        return "traced"

    return forked(attempt)


@probe
def processes_of_the_machine():
    for name in filter(str.isdigit, os.listdir("/proc")):
        with open(f"/proc/{name}/cmdline", "rb") as stream:
            if stream.read() == b"sleep\0" + FACTS["marker"].encode() + b"\0":
                return name
    raise HeldError("not among the processes")


@probe
def a_signal_to_the_machine():
    os.kill(FACTS["pid"], 0)
    return "it could be sent"


@probe
def root_of_process_1():
    os.stat("/proc/1/root" + FACTS["secret"])
    return "seen"


@probe
def folders_of_the_parent():
    os.stat(f"/proc/{os.getppid()}/root" + FACTS["secret"])
    return "seen"


@probe
def memory_of_process_1():
    os.close(os.open("/proc/1/mem", os.O_RDWR))
    return "opened"


@probe
def variables_of_process_1():
    with open("/proc/1/environ", "rb") as stream:
        stream.read()
    return "read"


@probe
def shared_memory():
    if LIBC.shmget(FACTS["shm"], 0, 0) < 0:
        raise HeldError(os.strerror(ctypes.get_errno()))
    return "found"


# --- files --------------------------------------------------------------------------------------------


@probe
def files_of_the_machine():
    with open(FACTS["secret"]) as stream:
        return stream.read()


@probe
def escape_from_a_root():
    def attempt():
        if os.geteuid():
            raise HeldError("not root")
        above = os.open("/", os.O_RDONLY)
        os.chroot(tempfile.mkdtemp())
        os.fchdir(above)
        for _ in range(64):
            os.chdir("..")
        os.chroot(".")
        return os.stat(FACTS["secret"])

    return forked(attempt)


@probe
def a_file_by_its_handle():
    handle = ctypes.create_string_buffer(128)
    handle[:4] = (120).to_bytes(4, sys.byteorder)
    found = ctypes.c_int()
    if LIBC.name_to_handle_at(-100, b"/", handle, ctypes.byref(found), 0):
        raise HeldError(os.strerror(ctypes.get_errno()))
    root = os.open("/", os.O_RDONLY)
    if LIBC.open_by_handle_at(root, handle, os.O_RDONLY) < 0:
        raise HeldError(os.strerror(ctypes.get_errno()))
    return "opened"


@probe
def a_write_to_an_input():
    with open(FACTS["input"], "a") as stream:
        stream.write("x")
    return "written"


@probe
def a_device():
    path = tempfile.mktemp()
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    os.close(os.open(path, os.O_RDONLY))
    os.unlink(path)
    return "made"


def change(path):
    """Set the mode that a file has, or else its times: the kernel refuses that like any other."""
    refused = []
    for action in (
        lambda: os.chmod(path, stat.S_IMODE(os.stat(path).st_mode)),
        lambda: os.utime(path, ns=(os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns)),
    ):
        try:
            action()
        except OSError as err:
            refused.append(errno.errorcode[err.errno])
    if len(refused) == 2:
        raise HeldError(refused)
    return "changed"


for _name in ("null", "zero", "full", "random", "urandom"):
    PROBES[f"mode_of_{_name}"] = lambda name=_name: change(f"/dev/{name}")

for _name in ("misc", "keys", "sys/kernel/printk_ratelimit"):
    PROBES[f"mode_of_proc_{_name}"] = lambda name=_name: change(f"/proc/{name}")


@probe
def mode_of_the_standard_input():
    os.fchmod(0, stat.S_IMODE(os.fstat(0).st_mode))
    return "changed"


@probe
def devices_of_the_machine():
    found = [name for name in ("console", "kmsg", "mem", "kvm", "fuse", "loop-control", "net/tun", "vsock", "tty")
             if os.path.exists(f"/dev/{name}")]  # fmt: skip
    if not found:
        raise HeldError("none")
    return found


@probe
def settings_of_the_kernel():
    os.close(os.open("/proc/sys/kernel/printk_ratelimit", os.O_WRONLY))
    return "opened"


@probe
def the_limit_of_processes():
    os.close(os.open("/proc/sys/kernel/pid_max", os.O_WRONLY))
    return "opened"


@probe
def the_sysrq_key():
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))
    return "opened"


def masked(name):
    with open(f"/proc/{name}", "rb") as stream:
        if not stream.read(1):
            raise HeldError("empty")
    return "read"


for _name in ("keys", "key-users", "timer_list", "kcore", "kallsyms", "interrupts", "modules"):
    PROBES[f"proc_{_name}"] = lambda name=_name: masked(name)


@probe
def the_devices_of_sysfs():
    if not os.listdir("/sys"):
        raise HeldError("empty")
    return "there"


@probe
def control_groups():
    os.stat("/sys/fs/cgroup/cgroup.procs")
    return "there"


@probe
def a_mount_of_the_processes():
    place = tempfile.mkdtemp()
    if LIBC.mount(b"proc", place.encode(), b"proc", 0, None):
        raise HeldError(os.strerror(ctypes.get_errno()))
    LIBC.umount2(place.encode(), 2)
    return "mounted"


@probe
def an_unmount():
    place = FACTS["mounted"].encode()
    if LIBC.umount2(place, 2):
        raise HeldError(os.strerror(ctypes.get_errno()))
    return "unmounted"


# --- network ------------------------------------------------------------------------------------------


def connects(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(5)
        one.connect(address)
    return "connected"


@probe
def the_loopback():
    return connects(socket.AF_INET, ("127.0.0.1", FACTS["port"]))


@probe
def an_abstract_socket():
    return connects(socket.AF_UNIX, "\0" + FACTS["abstract"])


@probe
def a_socket_of_a_folder():
    return connects(socket.AF_UNIX, FACTS["socket"])


@probe
def interfaces():
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    if not names:
        raise HeldError("none")
    return names


@probe
def raw_packets():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "a socket"


for _name, _family in (("packet", 17), ("vsock", 40), ("alg", 38), ("bluetooth", 31)):

    def _socket(family=_family):
        kind = {17: socket.SOCK_RAW, 38: socket.SOCK_SEQPACKET}.get(family, socket.SOCK_STREAM)
        socket.socket(family, kind).close()
        return "a socket"

    PROBES[f"socket_of_{_name}"] = _socket


@probe
def pair_of_packet_sockets():
    return call("socketpair", 17, int(socket.SOCK_RAW), 0, bytes(8), held=(errno.EAFNOSUPPORT,))


for _name, _protocol in (("sock_diag", 4), ("audit", 9), ("events", 15), ("generic", 16)):

    def _netlink(protocol=_protocol):
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()
        return "a socket"

    PROBES[f"netlink_of_{_name}"] = _netlink


# --- the terminal, keys, rights, limits ---------------------------------------------------------------


@probe
def the_terminal():
    os.close(os.open("/dev/tty", os.O_RDWR))
    return "opened"


@probe
def a_terminal_among_descriptors():
    found = [one for one in range(64) if os.isatty(one)]
    if not found:
        raise HeldError("none")
    return found


def own_terminal(request, argument):
    upper, lower = os.openpty()
    try:
        if LIBC.ioctl(lower, ctypes.c_ulong(request), argument) and ctypes.get_errno() == errno.EPERM:
            raise HeldError("EPERM")
        return errno.errorcode.get(ctypes.get_errno(), "done")
    finally:
        os.close(upper)
        os.close(lower)


@probe
def typing_into_a_terminal():
    return forked(lambda: os.setsid() or own_terminal(0x5412, b"x"))


@probe
def typing_with_a_large_request():
    """The kernel takes the low half of it alone."""
    return forked(lambda: os.setsid() or own_terminal(0x1_0000_5412, b"x"))


@probe
def the_selection_of_a_console():
    return own_terminal(0x541C, b"\3")


@probe
def a_driver_of_lines():
    return own_terminal(0x5423, ctypes.byref(ctypes.c_int(0)))


@probe
def a_key_of_the_session():
    call("request_key", b"user", FACTS["key"].encode(), None, 0, held=(errno.EPERM, errno.ENOKEY))
    return "found"


@probe
def variables():
    known = {"HOME", "LC_CTYPE", "PATH", "PWD", "SOURCE_DATE_EPOCH", "SHLVL", "_"}
    found = sorted(set(os.environ) - known)
    if not found:
        raise HeldError("none")
    return found


@probe
def descriptors():
    found = []
    for one in range(3, 256):
        try:
            os.fstat(one)
        except OSError:
            continue
        found.append(one)
    if not found:
        raise HeldError("none")
    return found


@probe
def the_name_of_the_machine():
    if socket.gethostname() == FACTS["hostname"]:
        return "seen"
    raise HeldError("another")


@probe
def a_name_for_the_machine():
    socket.sethostname(socket.gethostname())
    return "set"


def status(name):
    with open("/proc/self/status") as stream:
        return next(line.split()[1] for line in stream if line.startswith(name + ":"))


@probe
def new_privileges():
    if status("NoNewPrivs") == "1" and status("Seccomp") == "2":
        raise HeldError("none")
    return "there may be"


@probe
def capabilities():
    """SYS_ADMIN, NET_ADMIN, NET_RAW, SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_RESOURCE, SYS_TIME, BPF."""
    found = [one for one in (21, 12, 13, 16, 17, 19, 24, 25, 39) if int(status("CapBnd"), 16) >> one & 1]
    if not found:
        raise HeldError("none")
    return found


@probe
def another_user():
    return forked(lambda: os.setresuid(1, 1, 1) or "it is")


@probe
def groups():
    return forked(lambda: os.setgroups([1]) or "it has")


@probe
def time_of_the_processor():
    return forked(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) or "it has")


@probe
def a_higher_limit():
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if most == resource.RLIM_INFINITY:
        return "there is none"
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most + 1, most + 1))
    except ValueError as err:
        raise HeldError(err) from None
    return "set"


@probe
def a_file_of_a_terabyte():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with tempfile.TemporaryFile() as stream:
        stream.truncate(1 << 40)
    return "made"


@probe
def a_core():
    if resource.getrlimit(resource.RLIMIT_CORE) == (0, 0):
        raise HeldError("none")
    return "it may be written"


@probe
def the_last_to_be_killed():
    with open("/proc/self/oom_score_adj") as stream:
        if stream.read().strip() == "1000":
            raise HeldError("it is the first")
    return "it is"


@probe
def all_memory_as_files():
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = [os.statvfs(place) for place in ("/tmp", "/run", "/dev/shm", "/dev")]
    if sum(one.f_blocks * one.f_frsize for one in found) < total:
        raise HeldError("less")
    return "as much"


# --- other ABIs ---------------------------------------------------------------------------------------


@probe
def calls_of_x32():
    return call("x32", None, None, held=(errno.ENOSYS,)) if platform.machine() == "x86_64" else hold("no x86")


@probe
def calls_of_32_bits():
    """`int 0x80` with the number of i386 for keyctl."""
    if platform.machine() != "x86_64":
        hold("no x86")
    number = FACTS["i386"]["keyctl"]
    # push rbx; xor ebx, ebx; mov ecx, -3; xor edx, edx; mov eax, NUMBER; int 0x80; pop rbx; ret
    code = (
        b"\x53\x31\xdb\xb9\xfd\xff\xff\xff\x31\xd2\xb8" + number.to_bytes(4, "little") + b"\xcd\x80\x5b\xc3"
    )
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if result == -errno.EPERM:
        hold("EPERM")
    return result


def hold(reason):
    raise HeldError(reason)


def outcome(function):
    try:
        return f"broke {function()}"
    except (HeldError, OSError) as err:
        return f"held {err}"


def main():
    FACTS.update(json.loads(sys.argv[1]))
    PROBES.update(call_probes())
    json.dump({name: forked_outcome(function) for name, function in PROBES.items()}, sys.stdout)


def forked_outcome(function):
    """Each in a process of its own: one that is killed is `broke killed`, and none changes another."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(writing, 2)
        os.close(writing)
        os.write(2, outcome(function).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as stream:
        answer = stream.read().decode()
    os.waitpid(child, 0)
    return answer or "broke killed"


if __name__ == "__main__":
    main()
