# Makes the root of the sandbox. `launch.py` runs it in the new namespaces, mounts what else the command sees, moves the
# root over `/`, and limits itself.
#
# $1 root, $2 host name, $3 whether to layer, $4 the most process numbers or 0.
#
# It runs with all rights, so nothing of others is mounted yet, and its programs are found before the first mount.
# Settings of the kernel and device nodes belong to the machine's root, who is also root inside: `/proc` and the nodes
# are mounted read-only, so that no mode or time of theirs can be changed. What tells of the machine is masked, as
# container engines do it (`readonlyPaths` and `maskedPaths` of
# https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md). A mask has the flags of the node that it is.
# `mount -n` keeps its hands off the host's /run/mount.
set -eu

# $1 the place, $2 its name. A mount from outside keeps flags that a user namespace may not clear, hence the attempts.
make_read_only() {
    for flags in ro ro,nosuid ro,nodev ro,noexec ro,nosuid,nodev ro,nosuid,noexec ro,nosuid,nodev,noexec; do
        if "$mount" -n -o "remount,bind,$flags" -- "$1" 2>/dev/null; then return; fi
    done
    echo "$2 cannot be mounted read-only" >&2
    exit 1
}

find_program() {
    command -v "$1" || {
        echo "$1 is not on PATH" >&2
        exit 1
    }
}

root=$1 name=$2 layered=$3 processes=$4
hostname=$(find_program hostname)
ln=$(find_program ln)
mkdir=$(find_program mkdir)
mount=$(find_program mount)
"$hostname" "$name"
cd -- "$root"
if [ "$layered" = yes ]; then
    "$mount" -n -t tmpfs -o mode=0700,size=40% tmpfs tmp
    "$mkdir" tmp/written tmp/work tmp/root
    "$mount" -n -t overlay -o lowerdir=.,upperdir=tmp/written,workdir=tmp/work overlay tmp/root
    root=$root/tmp/root
else
    "$mount" -n --rbind -- "$root" "$root"
fi
cd -- "$root"
"$mkdir" -p dev proc sys run tmp
"$mount" -n -t tmpfs -o mode=0755,size=1m tmpfs dev
for node in null zero full random urandom; do
    : > "dev/$node"
    "$mount" -n --bind "/dev/$node" "dev/$node"
    make_read_only "dev/$node" "/dev/$node"
done
"$mkdir" dev/shm dev/pts
"$mount" -n -t tmpfs -o mode=1777,size=10% tmpfs dev/shm
"$mount" -n -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
"$ln" -s pts/ptmx dev/ptmx
"$ln" -s /proc/self/fd dev/fd
"$ln" -s /proc/self/fd/0 dev/stdin
"$ln" -s /proc/self/fd/1 dev/stdout
"$ln" -s /proc/self/fd/2 dev/stderr
# The kernel refuses a new /proc where a mount covers a part of the machine's, as in most containers. The machine's own
# would show its processes.
if ! "$mount" -n -t proc proc proc 2>/dev/null; then
    "$mount" -n -t tmpfs -o mode=0555,size=1m tmpfs proc
    for name in cpuinfo filesystems loadavg meminfo stat uptime version; do
        : > "proc/$name"
        "$mount" -n --bind "/proc/$name" "proc/$name"
        make_read_only "proc/$name" "/proc/$name"
    done
    "$mkdir" proc/sys
    "$mount" -n --rbind /proc/sys proc/sys
    make_read_only proc/sys /proc/sys
    if [ -d proc/sys/fs/binfmt_misc ]; then
        "$mount" -n -t tmpfs -o ro,size=0,nr_inodes=1 tmpfs proc/sys/fs/binfmt_misc
    fi
fi
if [ "$processes" -gt 0 ]; then
    echo "$processes" > proc/sys/kernel/pid_max 2>/dev/null || :
fi
for name in acpi asound scsi; do
    if [ -d "proc/$name" ]; then
        "$mount" -n -t tmpfs -o ro,size=0,nr_inodes=1 tmpfs "proc/$name"
    fi
done
for name in config.gz interrupts kallsyms kcore key-users keys kmsg kpagecgroup kpagecount kpageflags latency_stats \
    modules sched_debug slabinfo timer_list timer_stats vmallocinfo; do
    if [ -e "proc/$name" ]; then
        "$mount" -n --bind dev/null "proc/$name"
    fi
done
make_read_only proc /proc
"$mount" -n -t tmpfs -o mode=1777,size=40% tmpfs tmp
"$mount" -n -t tmpfs -o mode=0755,size=5% tmpfs run
