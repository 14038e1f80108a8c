"""The hint for a snapshot from inside a vendor's image.

It names the base image with its packages, and comes first.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from msgspec import Struct

from reprobuild.config.services import Service, fill_address
from reprobuild.ecosystems.oci_registry.reference import is_image
from reprobuild.errors import ReproError
from reprobuild.resolve.architecture import tells_platform
from reprobuild.resolve.cuda.packages import is_cuda
from reprobuild.resolve.vendor.naming import UNKNOWN, cuda_tag, is_complete_reference, name_image
from reprobuild.resolve.vendor.recognise import Sign, recognise_image
from reprobuild.snapshot.model import Snapshot

_SIGNS = 4  # that are shown
_JETSON = "; unless it ran on a Jetson, whose wheels have such versions, too"


class VendorOrigin(Struct, frozen=True, kw_only=True):
    """The vendor's image that a snapshot was taken inside.

    `reference` names it; it holds `TAG` or `YY.MM` if `whole` is False. `signs` are the evidence; `doubt` names another
    possible cause of them.
    """

    name: str
    reference: str
    whole: bool
    signs: tuple[Sign, ...]
    doubt: str = ""

    def lines(self) -> Iterator[str]:
        """Yield the text for a person.

        It has the image with the option that names it, and the evidence.
        """
        yield f"{self.name}, of which the packages come with --base {shlex.quote(self.reference)}"
        shown = ", ".join(f"{sign.text} ({sign.place})" for sign in self.signs[:_SIGNS])
        more = len(self.signs) - _SIGNS
        yield f"shown by {shown}" + (f" and {more} more" if more > 0 else "") + self.doubt


def find_origin(snapshot: Snapshot, services: Mapping[str, Service]) -> VendorOrigin | None:
    """Return the vendor's image that a snapshot was taken inside, or None."""
    image = recognise_image(snapshot)
    if image is None:
        return None
    reference = name_image(image, snapshot, services)
    sure = any(not sign.version for sign in image.signs) or tells_platform(snapshot)
    return VendorOrigin(
        name=image.name, reference=reference, whole=is_complete_reference(reference), signs=image.signs,
        doubt="" if sure else _JETSON,
    )  # fmt: skip


def base_hint(snapshot: Snapshot, base: str | None, services: Mapping[str, Service]) -> str:
    """Return the hint for a refused snapshot of a vendor's image.

    It is empty for any other snapshot.

    Args:
        snapshot: the captured environment.
        base: the decision, if any.
        services: by name.
    """
    origin = None if base and is_image(base) else find_origin(snapshot, services)
    if origin is None:
        return ""
    first = origin.signs[0]
    quoted = shlex.quote(origin.reference)
    text = (
        f"the snapshot was taken inside {origin.name} ({first.place}: {first.text}), which has its packages; "
        f"take it as base: --base {quoted}"
    )
    if origin.whole:
        more = f" (`docker buildx imagetools inspect {quoted}` prints its digest, which the lock pins)"
    else:
        more = ", with the tag of the image that ran (`docker images --digests` lists it and its digest)"
    return f"{text}{more}{origin.doubt}"


def loses_cuda(err: ReproError) -> bool:
    """Return whether a refusal concerns CUDA packages.

    Following its hint may also leave one out of the image.
    """
    lines = "\n".join([str(err), *err.listing])
    refused = re.findall(r"^  \S+:\d+: (\S+): unresolved ", lines, re.MULTILINE)
    return any(map(is_cuda, [*refused, *re.findall(r"--drop ([\w.+-]+)", err.hint)]))


def cuda_hint(snapshot: Snapshot, base: str | None, services: Mapping[str, Service]) -> str:
    """Return the hint for unavailable CUDA packages.

    It names the image of NVIDIA that has them.
    """
    if base and is_image(base):
        return (
            "CUDA's packages are in no archive of this machine: choose a base image that has them with --base"
        )
    if not any(is_cuda(package.name) for package in snapshot.packages):
        return ""
    tag = cuda_tag("", snapshot)
    image = shlex.quote(fill_address(services["nvidia-cuda"], tag=tag or UNKNOWN))
    return f"NVIDIA's images have CUDA's packages: --base {image}" + (
        f" (`docker buildx imagetools inspect {image}` prints its digest, which the lock pins)"
        if is_complete_reference(image)
        else ", with a tag of the captured CUDA and system"
    )
