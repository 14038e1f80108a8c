"""What is printed of bundles, and of what was pulled."""

from __future__ import annotations

import shlex

from reprobuild.distribute.bundle import Bundled
from reprobuild.distribute.pull import Pulled
from reprobuild.distribute.unbundle import Unbundled


def render_bundled(done: Bundled) -> str:
    """Return what was written, and how it is taken apart."""
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
        f"signed: {'yes' if done.signed else 'no'}; certificate: {'yes' if done.certified else 'no'}",
        f"copy it with {done.program}, which unpacks it where there is Python and no reprobuild",
    ]
    return "\n".join(lines)


def render_unbundled(done: Unbundled) -> str:
    """Return what came of a bundle, and what can be done with it."""
    out = shlex.quote(done.out)
    against = f" --against {shlex.quote(done.out + '/verdict.json')}" if done.certified else ""
    signed = (
        f"by {done.signer}" if done.signer else "yes, but the signer was not checked" if done.signed else "no"
    )
    lines = [
        f"unpacked  {done.members} files into {done.out}"
        if done.new
        else f"{done.out} has its {done.members} files already, whole",
        f"lock      sha256:{done.lock}",
        f"manifest  {done.manifest}",
        f"signed: {signed}; inputs in the store: {done.inputs}",
        f"check it here: reprobuild verify {out}{against}",
    ]
    return "\n".join(lines)


def render_pulled(pulled: Pulled) -> str:
    """Return what came, and what it can be compared with."""
    check = f"check it here: reprobuild verify {shlex.quote(str(pulled.out))}"
    certificates = [one.file for one in pulled.referrers if one.kind == "certificate" and one.file]
    against = [f"{check} --against {shlex.quote(str(pulled.out / file))}" for file in certificates]
    return "\n".join([pulled.reference, str(pulled.out), *(against or [check])])
