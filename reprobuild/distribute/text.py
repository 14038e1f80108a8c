"""Text output on bundles and pulled images."""

from __future__ import annotations

from pathlib import PurePosixPath

from reprobuild.distribute.bundle import BundleResult
from reprobuild.distribute.choices import TOO_MANY
from reprobuild.distribute.pull import PullResult
from reprobuild.distribute.unbundle import BundleCheck, UnbundleResult
from reprobuild.infra.shell_words import quote_path


def render_bundled(done: BundleResult) -> str:
    """Return the summary of a written bundle."""
    first = done.files[0] if len(done.files) == 1 else f"{done.files[0]} and {len(done.files) - 1} more"
    again = (
        "with all its inputs"
        if {"wheels", "debs"} <= set(done.parts)
        else "without its inputs (--include wheels,debs)"
    )
    lines = [
        f"bundle    {first}",
        f"sha256    {done.sha256}",
        f"size      {done.size / 1e6:.1f} MB, {done.members} files, {again}",
        f"lock      sha256:{done.lock}",
        f"manifest  {done.manifest}",
        f"signed: {'yes' if done.signed else 'no'}; verdict: {'yes' if done.certified else 'no'}",
        f"copy it with {done.program}, which unpacks it where there is Python and no reprobuild",
    ]
    return "\n".join(lines)


def render_unbundled(done: UnbundleResult) -> str:
    """Return the summary of an unpacked bundle."""
    out = quote_path(done.out)
    against = f" --against {quote_path(done.out + '/verdict.json')}" if done.certified else ""
    lines = [
        f"unpacked  {done.members} files into {done.out}"
        if done.new
        else f"{done.out} has its {done.members} files already, whole",
        f"lock      sha256:{done.lock}",
        f"manifest  {done.manifest}",
        f"signed: {_render_signer(done)}; inputs in the store: {done.inputs}",
        f"check it here: reprobuild verify {out}{against}",
    ]
    return "\n".join(lines)


def render_checked(done: BundleCheck) -> str:
    """Return the summary of a bundle that was compared with its manifest."""
    lines = [
        f"complete  {done.members} files, {done.size / 1e6:.1f} MB: each byte is as the manifest says",
        f"lock      sha256:{done.lock}",
        f"manifest  {done.manifest}",
        f"signed: {_render_signer(done)}",
        f"nothing was unpacked; lock and layers are checked by: reprobuild unbundle {quote_path(done.file)} -o OUT",
    ]
    return "\n".join(lines)


def _render_signer(done: BundleCheck | UnbundleResult) -> str:
    return (
        f"by {done.signer}" if done.signer else "yes, but the signer was not checked" if done.signed else "no"
    )


def render_pulled(pulled: PullResult) -> str:
    """Return the summary of a pull."""
    check = f"check it here: reprobuild verify {quote_path(pulled.out)}"
    certificates = [
        referrer.file for referrer in pulled.referrers if referrer.kind == "certificate" and referrer.file
    ]
    against = [f"{check} --against {quote_path(pulled.out / file)}" for file in certificates]
    choices = [
        f"choices of compilers, which are code: reprobuild run {quote_path(pulled.out)} "
        f"--trust-choices {PurePosixPath(choice.file).stem} -- CMD"
        for choice in pulled.choices
        if choice.file
    ]
    unseen = sum(choice.why == TOO_MANY for choice in pulled.choices)
    if unseen:
        choices.append(f"{unseen} more choices of compilers {TOO_MANY}")
    return "\n".join([pulled.reference, str(pulled.out), *(against or [check]), *choices])
