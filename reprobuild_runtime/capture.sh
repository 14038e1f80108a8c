#!/bin/bash
# Take a snapshot of this environment with Bash alone, for machines on which no Python shall be started for it.
#
#     bash capture.sh DIR
#
# It writes the text files of the reproducibility chapter (Stas Bekman, Machine Learning Engineering Open Book):
# modules.txt, env.txt, requirements.txt, apt-packages.txt, and for each editable install NAME.diff; also
# NAME.untracked and, where a commit is on no remote, NAME.bundle. `reprobuild capture` takes more: contents of
# untracked files, what was staged, hardware, and it knows more kinds of secrets.
#
# It changes nothing but DIR, which appears whole. One of many ranks captures. It always exits 0, but for a wrong
# command line (2) and a directory that cannot be written (3).
set -u
umask 077
export LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0

absolute_path() { # without `.`, `node_modules/.bin` and other entries that name the current directory
    local entry kept='' entries
    IFS=: read -r -a entries <<< "$PATH"
    for entry in "${entries[@]}"; do
        [[ $entry == /* ]] && kept+=${kept:+:}$entry
    done
    printf '%s\n' "${kept:-/usr/bin:/bin}"
}
path=$PATH # what is captured; no program of this directory is run, which may be anybody's
PATH=$(absolute_path)

say() { printf 'capture.sh: %s\n' "$*" >&2; }

[ $# = 1 ] && [ -n "$1" ] || { say "usage: capture.sh DIR"; exit 2; }
target=${1%/}
part=$(dirname -- "$target")/.$(basename -- "$target").capturing

# Names of secrets, and what some kinds of secrets look like. A value that fits is not written.
secret_names='(TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|COOKIE|BEARER|WEBHOOK|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH)|(^|_)(PASS|PW|PWD|KEY|DSN|SAS|SIG)$|^AZURE_|^KRB5CCNAME$|^NETRC$'
harmless_names='^(OLD)?PWD$|^SSH_AUTH_SOCK$|_(FILE|PATH|DIR|VERSION|TYPE)$'
secret_looks='PRIVATE KEY-----|://[^/@[:space:]]+:[^/@[:space:]]+@|://[^/:@[:space:]]+:[0-9]*[^0-9/@[:space:]][^@[:space:]]*@|(^|[^A-Za-z0-9])(hf_|ghp_|gho_|ghs_|github_pat_|glpat-|sk-|xox[abps]-|nvapi-|AKIA|AIza|eyJ[A-Za-z0-9_-]+\.)[A-Za-z0-9_-]{10}'

is_secret() { # NAME VALUE
    [[ -n $2 ]] || return 1
    [[ $2 =~ $secret_looks ]] && return 0
    [[ ${1^^} =~ $harmless_names ]] && return 1
    # What counts or makes tokens is none, unless the rest of its name is that of a secret.
    local rest=${1^^}
    rest=${rest//TOKENI[ZS]/}
    [[ $rest =~ ^(.*)(MAX|MIN|NUM|NEW)_TOKENS(.*)$ ]] && rest=${BASH_REMATCH[1]}${BASH_REMATCH[3]}
    [[ $rest =~ $secret_names ]]
}

# Between NULs, so that no value is torn; `tr '\0' '\n' < env.txt` shows it.
take_environment() {
    local entry name
    PATH=$path "$(type -P env)" -0 | while IFS= read -r -d '' entry; do
        name=${entry%%=*}
        if ! is_secret "$name" "${entry#*=}"; then
            printf '%s\0' "$entry"
        elif [[ ${name^^} =~ $secret_names ]]; then
            printf '%s=***\0' "$name"
        fi
    done > "$part/env.txt"
}

# A password may hold a slash or an `@`; `r.git@commit`, a port and a host with a dot tell an address without such.
without_credentials() {
    sed -E '/\.git@/!s#(://)[^/@[:space:]]+:[^/@[:space:]]*@[A-Za-z0-9_-]+/([^@[:space:]]*[^/@[:space:]])?@([A-Za-z][A-Za-z0-9.-]*(:[0-9]+)?/)#\1\3#g
        s#(://)[^/:@[:space:]]+:[^/@[:space:]]*[^0-9/@[:space:]][^/@[:space:]]*/[^@[:space:]]*@#\1#g
        s#(://)[^/@[:space:]]+:[^/@[:space:]]+@#\1#g; s#(https?://)[^/@[:space:]]+@#\1#g'
}

take_modules() {
    if type module > /dev/null 2>&1; then
        module list 2> "$part/modules.txt" > /dev/null
    fi
}

take_freeze() {
    if command -v uv > /dev/null 2>&1 && [ -n "${VIRTUAL_ENV-}" ]; then
        (cd / && timeout 60 uv pip freeze 2> /dev/null)
    else
        (cd / && timeout 60 python3 -m pip freeze 2> /dev/null) # `-m` would run a `pip/` of the current directory
    fi | without_credentials > "$part/requirements.txt"
}

take_python() {
    command -v python3 > /dev/null 2>&1 || return 0
    timeout 60 python3 -I -c 'import sys, sysconfig
print("Python", sys.version.replace("\n", " "))
print(sysconfig.get_platform())' > "$part/python.txt" 2> /dev/null
}

take_packages() {
    command -v dpkg-query > /dev/null 2>&1 || return 0
    local states=/var/lib/apt/extended_states
    [ -r "$states" ] || states=/dev/null
    # shellcheck disable=SC2016 # these are variables of dpkg-query
    timeout 60 dpkg-query -W -f='${db:Status-Abbrev}|${Package}|${Version}|${Architecture}\n' |
        awk -F'|' -v states="$states" '
            BEGIN { while ((getline line < states) > 0) {
                if (line ~ /^Package: /) name = substr(line, 10)
                if (line ~ /^Auto-Installed: 1/) automatic[name] = 1 } }
            $1 ~ /^.i/ { print $2 "/now " $3 " " $4 " [installed" ($2 in automatic ? ",automatic" : "") "]" }
        ' > "$part/apt-packages.txt"
}

# The directories of editable installs, which their direct_url.json names (https://peps.python.org/pep-0610/).
editables() {
    local prefix file path
    for prefix in "${VIRTUAL_ENV-}" "${CONDA_PREFIX-}" "$(dirname -- "$(command -v python3)")/.."; do
        [[ $prefix == /* ]] || continue
        for file in "$prefix"/lib/python*/*-packages/*.dist-info/direct_url.json; do
            if [ -f "$file" ] && grep -q '"editable": *true' "$file"; then
                path=$(sed -nE 's#.*"url": *"file://([^"]*)".*#\1#p' "$file")
                printf '%b\n' "${path//%/\\x}"
            fi
        done
    done | sort -u
}

# Missing objects are not fetched, no filter and no `git status` of a submodule is started: the repository's
# configuration may name any program.
in_repository() { # TOP WORDS...
    local top=$1
    shift
    GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=none timeout 60 git --no-pager -C "$top" -c core.fsmonitor=false -c core.hooksPath=/dev/null -c protocol.allow=never "$@"
}

users_lfs() { # whether the user's own configuration alone says how LFS is started
    local scopes
    scopes=$(in_repository "$1" config --show-scope --get-regexp '^(filter\.lfs|lfs\.(extension|customtransfer))\.') &&
        ! grep -qE '^(local|worktree)[[:space:]]' <<< "$scopes"
}

# `git diff HEAD`, not `git diff`: that one leaves out what is staged, and then fits no commit.
take_repository() { # FOLDER
    local top name key calm
    top=$(git -C "$1" rev-parse --show-toplevel 2> /dev/null) || return 0
    name=$(basename -- "$top" | tr -c 'A-Za-z0-9._\n-' _)
    [ ! -e "$part/$name.untracked" ] || return 0
    calm=()
    while IFS= read -r -d '' key; do
        key=${key%.*} # a name with `=` would be cut in `-c`
        case $key in *=*) return 0 ;; esac
        [ "$key" = filter.lfs ] && users_lfs "$top" && continue
        calm+=(-c "$key.clean=" -c "$key.smudge=" -c "$key.process=" -c "$key.required=false")
    done < <(in_repository "$top" config -z --name-only --get-regexp '^filter\.')
    in_repository "$top" ${calm[@]+"${calm[@]}"} diff --ignore-submodules=dirty --submodule=short \
        --binary --full-index --no-ext-diff --no-textconv --no-color --no-renames \
        --src-prefix=a/ --dst-prefix=b/ HEAD > "$part/$name.diff"
    [ -s "$part/$name.diff" ] || rm -f "$part/$name.diff"
    in_repository "$top" ls-files -z --others --exclude-standard > "$part/$name.untracked"
    if [ -n "$(in_repository "$top" rev-list -n 1 HEAD --not --remotes)" ]; then
        in_repository "$top" bundle create --quiet "$part/$name.bundle" HEAD --not --remotes
    fi
}

[ ! -e "$target/env.txt" ] || { say "$target: captured already"; exit 0; }
mkdir -p -- "$(dirname -- "$target")" 2> /dev/null
if ! mkdir -- "$part" 2> /dev/null; then
    [ -d "$part" ] && { say "another process is capturing into $target"; exit 0; }
    say "$target cannot be written"
    exit 3
fi
trap 'rm -rf -- "$part"' EXIT
[ ! -e "$target/env.txt" ] || { say "$target: captured already"; exit 0; } # between our two looks
{
    take_environment
    take_modules
    take_freeze
    take_python
    take_packages
    editables | while IFS= read -r folder; do take_repository "$folder"; done
} 2> /dev/null < /dev/null
if mv -T -- "$part" "$target" 2> /dev/null; then
    trap - EXIT # the name is free, and may be another's already
    say "$target: captured"
elif [ -e "$target/env.txt" ]; then
    say "$target: another process was quicker"
else
    say "$target cannot be written, or is not empty"
    exit 3
fi
exit 0
