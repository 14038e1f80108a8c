"""The command `bundle`: an output directory as one file.

The inputs are included on request; docs/bundles.md describes the contents.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild import __version__
from reprobuild.distribute.attachments import read_own_verdict
from reprobuild.distribute.bundle_contents import (
    PROGRAM,
    BundleFile,
    Part,
    list_contents,
    read_unbundle_program,
    with_own_name,
)
from reprobuild.distribute.bundle_writer import WrittenBundle, manifest_of, write_bundle
from reprobuild.distribute.own_wheels import write_own_wheels
from reprobuild.distribute.signing import sign
from reprobuild.errors import DistributionError, UsageError
from reprobuild.infra.atomic import private_directory, write_file
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.output.directory import VERDICT, read_image
from reprobuild.store.store import Store
from reprobuild_portable.unbundle.format import RefusedError
from reprobuild_portable.unbundle.volume import is_bundle_start, is_part

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SMALLEST = 1 << 20
_ELSEWHERE = "write the bundle into another directory, or name it otherwise with -o"


class BundleOptions(Struct, frozen=True, kw_only=True):
    """The options of a bundle.

    Attributes:
        parts: the parts beside the image, its recipe, the sources and their facts.
        key: the ssh key that signs; None for no signature.
        split: bytes of a part; 0 for one file.
    """

    parts: frozenset[Part] = frozenset()
    key: Path | None = None
    split: int = 0


class BundleResult(Struct, frozen=True, kw_only=True):
    """A written bundle: its files, hash, size and contents.

    `files` are in their order; `sha256` (hex) and `size` are of all together.
    """

    files: tuple[str, ...]
    sha256: str
    size: int
    members: int
    lock: str
    manifest: str
    parts: tuple[str, ...]
    signed: bool
    certified: bool
    program: str


def parse_size(text: str) -> int:
    """Return the bytes of a size like `4G`.

    G is 2 to the power of 30.

    Raises:
        UsageError: it is not a size, or less than a megabyte.
    """
    match = re.fullmatch(r"(\d{1,12})([KMGT]?)I?B?", text.strip().upper())
    size = int(match.group(1)) * _UNITS[match.group(2)] if match else 0
    if size < _SMALLEST:
        raise UsageError(f"--split {text}: no size of at least 1M", hint="for example --split 4G")
    return size


def bundle(
    out: Path, target: Path, store: Store, options: BundleOptions, env: Mapping[str, str], *,
    say: Callable[[str], None], progress: Callable[[int, int], None] = lambda done, total: None,
) -> BundleResult:  # fmt: skip
    """Write an output directory's bundle, and its unpacking program.

    The program is put beside it; the files appear complete. The same output directory gives the same bytes.

    Args:
        out: the output directory.
        target: the file; a former bundle is replaced.
        store: has the inputs.
        options: its parts, the key that signs it, and the size of one file of it.
        env: the user's environment, for `ssh-keygen`.
        say: called with each step.
        progress: called with (bytes so far, bytes in all).

    Raises:
        UsageError: `out` holds no image.
        DistributionError: a part is missing or damaged, the bundle cannot be signed, or `target` is another file.
        FetchError: an input is not in the store.
        OSError: there is no room; no file is left behind.
    """
    lock, image = read_image(out)
    shown = with_own_name(lock, image)
    if shown != image:
        say(
            f"the image is {shown.reference} in the bundle: {image.reference} could be the name of another one there"
        )
    beside = target.parent / PROGRAM
    _refuse_other_files(target, beside)
    own_verdict = read_own_verdict(lock, image, out, store, say)
    if own_verdict is None:
        say(f"there is no {VERDICT} of a check here in {out}: the bundle will hold no verdict")
    with private_directory(target.absolute().parent, f".{target.name}.bundling.") as folder:
        files = list_contents(out, lock, image, store, options.parts, own_verdict)
        if "reprobuild" in options.parts:
            say("reprobuild itself: its wheels")
            files += [
                BundleFile(path=f"reprobuild/{path.name}", content=path)
                for path in write_own_wheels(folder / "wheels")
            ]
        fields = {
            "made_by": f"reprobuild {__version__}", "lock": lock.digest, "parts": sorted(options.parts),
            "image": {name: getattr(shown, name) for name in ("reference", "tree", "config", "manifest")},
        }  # fmt: skip
        try:
            manifest = manifest_of(files, fields)
        except RefusedError as err:
            raise DistributionError(str(err), hint="give the file another name, and build again") from None
        signature = sign(manifest, options.key, env) if options.key else b""
        say(f"bundle: {len(files)} files")
        written = write_bundle(
            folder / target.name,
            files,
            manifest,
            signature,
            lock.epoch,
            split=options.split,
            progress=progress,
        )
        write_file(beside, read_unbundle_program())
        placed = _replace_parts(written, target)
    return BundleResult(
        files=placed, sha256=written.sha256, size=written.size, members=len(files), lock=lock.digest,
        manifest=image.manifest, parts=tuple(sorted(options.parts)), signed=bool(signature),
        certified=own_verdict is not None, program=str(beside),
    )  # fmt: skip


def _read_head(path: Path) -> bytes:
    with open_plain(path, links=True)[0] as stream:
        return stream.read(1000)


def _refuse_other_files(target: Path, beside: Path) -> None:
    """Refuse to replace a file that is not ours."""
    if beside.exists() and b"bundle of reprobuild" not in _read_head(beside):
        raise DistributionError(
            f"{beside} is another program", hint="write the bundle into another directory"
        )
    if target.is_dir():
        raise DistributionError(f"{target} is a directory", hint="name a file with -o")
    if is_part(target.name):
        raise DistributionError(
            f"{target} has the name of a part of a bundle",
            hint="name it with -o so that it ends in no number",
        )
    if (
        target.exists()
        and not is_bundle_start(str(target))
        and (not target.is_file() or target.stat().st_size)
    ):
        raise DistributionError(f"{target} is there, and is no bundle", hint=_ELSEWHERE)
    numbered = _list_parts(target)
    if numbered and not is_bundle_start(str(target.with_name(f"{target.name}.001"))):
        raise DistributionError(
            f"{numbered[0]} is there, which is no part of a bundle, and would be taken for one",
            hint=_ELSEWHERE,
        )


def _list_parts(target: Path) -> list[Path]:
    """Return the existing part files of this name, in order."""
    named = (target.with_name(f"{target.name}.{number:03d}") for number in itertools.count(1))
    return list(itertools.takewhile(Path.is_file, named))


def _replace_parts(written: WrittenBundle, target: Path) -> tuple[str, ...]:
    """Move the finished files into place, and remove former parts."""
    places = [target.parent / path.name for path in written.paths]
    former = _list_parts(target)
    for place in places:
        if place != target and place not in former and place.exists():
            raise DistributionError(f"{place} is there, and is no part of a bundle", hint=_ELSEWHERE)
    if target not in places:
        target.unlink(missing_ok=True)  # or it would be taken for the bundle
    # The first is removed last, because it identifies the others as ours if this process is killed.
    for path in reversed(former):
        if path not in places:
            path.unlink()
    for path, place in zip(written.paths, places, strict=True):
        path.replace(place)
    return tuple(map(str, places))
