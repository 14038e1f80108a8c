"""The configuration of a repository, and options that keep git from running what it names."""

from __future__ import annotations

from typing import Dict, List, Mapping

from reprobuild_portable.capture.files import _path
from reprobuild_portable.capture.model import GaveUpError

# Otherwise the configuration of the repository could make git run programs, or ask a person.
_CALM = (
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.untrackedCache=false", "core.pager=cat", "gc.auto=0",
    "maintenance.auto=0", "credential.helper=", "protocol.allow=never", "core.sshCommand=false", "core.askPass=false",
    "diff.external=", "core.alternateRefsCommand=", "uploadpack.packObjectsHook=", "core.quotePath=true",
    "core.checkRoundtripEncoding=", "pack.threads=1", "index.threads=1", "core.splitIndex=false", "gpg.program=false",
    "gpg.openpgp.program=false", "gpg.x509.program=false", "gpg.ssh.program=false", "gpg.ssh.defaultKeyCommand=false",
    "log.showSignature=false", "core.editor=false", "sequence.editor=false", "interactive.diffFilter=false",
    "fetch.recurseSubmodules=false", "submodule.recurse=false", "diff.ignoreSubmodules=all", "core.multiPackIndex=true",
)  # fmt: skip


def list_calm_options() -> List[str]:
    """Return options that overrule settings of programs."""
    return [word for setting in _CALM for word in ("-c", setting)]


def parse_settings(output: bytes) -> Dict[str, str]:
    """Return the last value of each setting in the output of `git config --list -z`.

    Names that git compares without case are in lower case.

    Raises:
        GaveUpError: the refs of the repository lie elsewhere (since git 2.54).
    """
    settings = {}
    for row in output.split(b"\0"):
        name, _, value = row.decode("utf-8", "surrogateescape").partition("\n")
        if name == "extensions.refstorage" and ":" in value:
            raise GaveUpError("untrusted", f"its `extensions.refStorage` leads to {_path(value)}")
        settings[name] = value
    return settings


def list_filter_options(settings: Mapping[str, str]) -> List[str]:
    """Return options that switch off each filter.

    Raises:
        GaveUpError: a filter has a name that no option can have.
    """
    options = []
    for name in sorted({key.rpartition(".")[0] for key in settings if key.startswith("filter.")}):
        if "=" in name or "\n" in name:
            raise GaveUpError("failed", "the configuration names a filter that cannot be switched off")
        for key in ("clean", "smudge", "process"):
            options += ["-c", f"{name}.{key}="]
        options += ["-c", f"{name}.required=false"]
    return options
