#!/bin/bash
# Run a command in a clone of this checkout on a bare Debian: `dev/bare_root.sh make test`.
#
# Shows what a user meets on a new machine: a minimal Debian with Python, git and make, root, an
# empty home and no engine.  The root has mounts and process numbers of its own and shares the
# network.  How this machine reaches its package sources (apt's and pip's configuration,
# certificates, local wheel directories) is bound in read-only.  Uncommitted work is not in the clone.
#
#   BARE_DIR=DIR   make the root in DIR (on a disk, not a tmpfs), default: a new directory in /tmp
#   BARE_KEEP=1    leave the root there afterwards
#   BARE_MOUNTS=chroot  leave /sys/fs/cgroup out, as a plain chroot has it
set -euo pipefail

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
engine() { python3 "$checkout/dev/private_engine.py" "$@"; }
say() { printf 'bare_root: %s\n' "$*" >&2; }
fail() {
    say "$1"
    printf '  hint: %s\n' "$2" >&2
    exit 1
}

# --- inside the new namespaces: mount, change the root, run ------------------------------------
# -n: until the root is changed, mount would note in the machine's /run what only this script sees.

bind() { # bind SOURCE ROOT: the same path in the root, read-only
    local source=$1 target=$2$1
    [ -e "$source" ] || return 0
    [ ! "$source" -ef "$target" ] || return 0 # in a directory that is bound already
    if [ -d "$source" ]; then mkdir -p "$target"; else mkdir -p "${target%/*}" && touch "$target"; fi
    mount -n --rbind "$source" "$target"
    mount -n -o remount,bind,ro "$target"
}

enter() { # enter ROOT CMD...
    local root=$1 path
    shift
    mount -n --bind "$root" "$root" # pivot_root wants a mount point
    mount -n -t proc proc "$root/proc"
    if [ "${BARE_MOUNTS:-}" = chroot ]; then
        mount -n -t sysfs sysfs "$root/sys"
    else
        mount -n --rbind /sys "$root/sys"
    fi
    mount -n --bind /dev "$root/dev"
    mount -n -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
    mount -n -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -n -t tmpfs -o mode=755 tmpfs "$root/run"
    while IFS= read -r path; do
        bind "$path" "$root"
    done <"$root/.reprobuild-binds"
    rm "$root/.reprobuild-binds"
    mkdir -p "$root/mnt/old"
    cd "$root"
    # A chroot would do for files, but user namespaces cannot be made in one.
    pivot_root . mnt/old
    umount -l /mnt/old
    rmdir /mnt/old
    cd /root/reprobuild
    exec "$@"
}

if [ "${1:-}" = --enter ]; then
    shift
    enter "$@"
fi

# --- outside: make the root ---------------------------------------------------------------------

[ "$#" -gt 0 ] || fail "no command" "dev/bare_root.sh make test"
[ "$(id -u)" = 0 ] || fail "this needs root" "run it as root"

# Prints the directories and files that pip's settings name, and writes those settings into the root:
# the home, where some of them may stand, is empty there.
pip_settings() { # pip_settings ROOT
    python3 -m pip config list | python3 -c '
import ast, configparser, pathlib, sys

conf = configparser.RawConfigParser()
for line in sys.stdin:
    name, _, value = line.strip().partition("=")
    section, _, key = name.partition(".")
    text = ast.literal_eval(value)
    for word in text.split():
        path = word.removeprefix("file://")
        if path.startswith("/"):
            # The pages of an index in files name the wheels beside them.
            index = "index-url" in key and pathlib.Path(path).parent != pathlib.Path("/")
            print(pathlib.Path(path).parent if index else path)
    if not section.startswith(":"):  # those of the environment are passed in it
        if not conf.has_section(section):
            conf.add_section(section)
        conf.set(section, key, "\n".join(text.split()))
with open(sys.argv[1] + "/etc/pip.conf", "w", encoding="utf-8") as file:
    conf.write(file)
' "$1"
}

# Names of variables that say how to reach the network; all others stay outside.
network_environment() {
    compgen -e | grep -iE '^(PIP_.*|(https?|ftp|no|all)_proxy|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE|GIT_SSL_CAINFO)$' || true
}

work=$(mktemp -d "${BARE_DIR:-/tmp}/reprobuild-bare-XXXXXX")
root=$work/root
# shellcheck disable=SC2329 # by the trap
cleanup() {
    # All mounts were made in a namespace that is gone; --one-file-system is for the doubtful case.
    if [ "${BARE_KEEP:-}" = 1 ]; then say "kept: $root"; else rm -rf --one-file-system "$work"; fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# shellcheck disable=SC2329 # by the traps
end_at_once() {
    kill -KILL "$child" && wait "$child" || true
    # An engine killed in there cannot remove its control groups; those in use resist.
    local name
    name=reprobuild-$(printf %s /root/reprobuild/.engine | sha256sum | cut -c1-12)
    find /sys/fs/cgroup -depth -type d -path "*/$name*" -exec rmdir {} + 2>/dev/null || true
}

say "making a bare Debian in $root"
mmdebstrap=$(command -v mmdebstrap || true)
if [ -z "$mmdebstrap" ]; then
    engine unpack "$work/tools" mmdebstrap
    mmdebstrap=$work/tools/usr/bin/mmdebstrap
fi
engine sources "$work/apt"
PATH=$work/tools/usr/bin:$PATH perl "$mmdebstrap" --quiet --variant=minbase \
    --include=python3,git,make,ca-certificates --aptopt="$work/apt/acquire.conf" \
    "$(cat "$work/apt/suite")" "$root" "$work/apt/debian.sources"

rm -rf "$root/etc/apt" "$root/usr/share/keyrings"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
{
    printf '%s\n' /etc/apt /usr/share/keyrings /etc/ssl/certs /usr/share/ca-certificates /usr/local/share/ca-certificates
    pip_settings "$root"
} | sort -u >"$root/.reprobuild-binds"

if [ -n "$(git -C "$checkout" status --porcelain)" ]; then
    say "uncommitted work in $checkout is left out"
fi
git clone --quiet --no-hardlinks "$checkout" "$root/root/reprobuild"

environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "TERM=${TERM:-dumb}")
while IFS= read -r name; do
    [ -z "$name" ] || environment+=("$name=${!name}")
done < <(network_environment)

say "running in it: $*"
# In the background, because bash would look at a signal only after the command; the kernel ends
# everything in the namespaces with their first process.
trap 'end_at_once; exit 130' INT
trap 'end_at_once; exit 143' TERM
unshare --mount --propagation private --pid --fork --kill-child -- \
    env -i "${environment[@]}" "BARE_MOUNTS=${BARE_MOUNTS:-}" \
    bash "$checkout/dev/bare_root.sh" --enter "$root" "$@" <&0 &
child=$!
code=0
wait "$child" || code=$?
say "exit code $code"
exit "$code"
