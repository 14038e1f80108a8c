#!/bin/sh
# Make .venv in the checkout, with reprobuild and what its checks need.
#
#     dev/setup_venv.sh            .venv, of the locked releases (dev/requirements.txt, each file by sha256)
#     dev/setup_venv.sh --newest   .venv-newest, of the newest releases that pyproject.toml admits
#
# Quick when nothing has changed.  Works where Debian's python3 comes without python3-venv and
# without pip: then pip's wheel is taken from Debian's python3-pip-whl, which is unpacked in a
# temporary directory and not installed.
set -eu

cd "$(dirname "$0")/.."
checkout=$(pwd -P)
lock=dev/requirements.txt
venv=.venv
newest=
if [ "${1:-}" = --newest ]; then
    venv=.venv-newest newest=yes
fi
stamp=$venv/reprobuild-stamp

say() { printf 'setup_venv: %s\n' "$*" >&2; }

fail() {
    say "$1"
    printf '  hint: %s\n' "$2" >&2
    exit 1
}

# A caller's own settings must not lead Python or pip out of the environment.
unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1

python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        # The program itself: a shim found on PATH may lead elsewhere tomorrow.
        python=$("$candidate" -c 'import sys; print(sys.executable)')
        break
    fi
done
[ -n "$python" ] || fail "no Python 3.10 or newer (python3 on PATH, /usr/bin/python3)" \
    "install one, and have it first on PATH"

# What the environment was made for: this place, this Python, these requirements.
place() { printf '%s\n%s\n%s\n' "$checkout" "$python" "$("$python" -V)"; }
wanted() {
    place
    cat pyproject.toml "$lock" dev/setup_venv.sh
}

# Two `make` at a time: the second waits, then finds everything done.
exec 9<pyproject.toml
flock 9

if [ -z "$newest" ] && [ -f "$stamp" ] && wanted | cmp -s - "$stamp"; then
    exit 0
fi

make_empty() {
    say "making $venv with $python"
    rm -rf "$venv"
    if "$python" -c 'import ensurepip' 2>/dev/null; then
        "$python" -m venv "$venv"
        return
    fi
    say "no ensurepip here: taking pip from the package python3-pip-whl (unpacked, not installed)"
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    "$python" dev/private_engine.py unpack "$scratch" python3-pip-whl ||
        fail "pip cannot be had" "install python3-venv, or have a Python with ensurepip first on PATH"
    "$python" -m venv --without-pip "$venv"
    for wheel in "$scratch"/usr/share/python-wheels/pip-*.whl; do
        "$venv/bin/python" "$wheel/pip" --quiet install --no-index "$wheel"
    done
    rm -rf "$scratch"
}

# The stamp is the last thing written: without it, what is there is a broken try and is redone.
# With one for the same place and Python, only the requirements have changed.
if [ ! -f "$stamp" ] || [ "$(head -n 3 "$stamp")" != "$(place)" ]; then
    make_empty
fi
rm -f "$stamp"
say "installing reprobuild and its development tools"
# Twice quiet: a directory of wheels that lacks one of the names is no news.  Errors are still printed.
install() { "$venv/bin/python" -m pip -qq install "$@"; }
unreached="see the lines above; \`pip config list\` says where it looks"
if [ -n "$newest" ]; then
    install --upgrade --upgrade-strategy eager -e '.[dev]' ||
        fail "pip could not install the newest requirements" "$unreached"
else
    # Each file is compared with a hash of the lock, the build backend of the second line among them.
    install --require-hashes -r "$lock" ||
        fail "pip could not install the locked requirements" "$unreached; \`make lock\` locks newer releases"
    install --no-deps --no-index --no-build-isolation -e . ||
        fail "pip could not install reprobuild" "see the lines above"
fi
wanted >"$stamp.new"
mv "$stamp.new" "$stamp"
