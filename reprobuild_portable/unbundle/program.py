#!/usr/bin/env python3
"""A program that checks and unpacks a bundle of reprobuild.

    python3 unbundle.py FILE -o OUT [--allowed-signers FILE] [--load docker|podman|apptainer]
    python3 unbundle.py FILE --check

FILE is the bundle, or the common beginning of the names of its parts FILE.001, FILE.002, ... It needs only
Python 3.8.

A bundle is a plain tar. Its first member, `bundle.json`, names every other one with its size and sha256; the
one after it may be a signature of the first (`ssh-keygen -Y sign`). So every byte of the file is known from
the first member, and each is compared: names, links, sizes and order are never taken from anywhere else.
Unpacked members become plain files, below OUT alone. The format is in docs/bundles.md of reprobuild.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Callable, Sequence

from reprobuild_portable.hashing import hash_file
from reprobuild_portable.unbundle.bundle import Bundle, open_bundle
from reprobuild_portable.unbundle.damage import check
from reprobuild_portable.unbundle.engine import load
from reprobuild_portable.unbundle.format import PAGE, RefusedError
from reprobuild_portable.unbundle.manifest import escape_name, escape_text
from reprobuild_portable.unbundle.messages import origin, print_line, say_strangers
from reprobuild_portable.unbundle.names import check_names
from reprobuild_portable.unbundle.strangers import list_foreign_paths
from reprobuild_portable.unbundle.unpack import unpack


def main(argv: Sequence[str]) -> int:
    """Run the command line and return the exit code.

    The code is 11 if the bundle is refused.
    """
    top = argparse.ArgumentParser(description="Check a bundle of reprobuild, and unpack it.")
    top.add_argument("file", metavar="FILE", help="the bundle, or the name that its parts have in common")
    top.add_argument("-o", "--output", dest="out", default="frozen", help="a new directory [default: frozen]")
    top.add_argument("--check", action="store_true", help="compare every byte, and unpack nothing")
    top.add_argument(
        "--allowed-signers",
        dest="signers",
        metavar="FILE",
        help="take only what one of these signed (ssh-keygen(1), ALLOWED SIGNERS)",
    )
    top.add_argument(
        "--load", choices=["docker", "podman", "apptainer"], help="bring the image into an engine"
    )
    options = top.parse_args(argv)
    try:
        with open_bundle(options.file, options.signers or "") as bundle:
            if bundle.signature:
                print_line(
                    "signed by %s"
                    % (
                        escape_text(bundle.signer)
                        if bundle.signer
                        else "an unknown key: the signer was not checked (use --allowed-signers)"
                    )
                )
            if options.check:
                check(bundle)
                print_line("%s is complete: %d files" % (escape_name(options.file), len(bundle.members)))
                return 0
            out = os.path.abspath(options.out)  # if it is the working directory, another replaces it
            new = unpack(
                bundle, out, progress=_make_progress_printer() if sys.stderr.isatty() else lambda done, total: None,
                settle=lambda tree: _settle(bundle, tree),
            )  # fmt: skip
            name = check_names(
                bundle.document, out
            )  # `reprobuild` of another version may have unpacked the bundle
            print_line(
                "%s in %s; its README.md says what can be done with it"
                % (
                    "unpacked" if new else "its files are whole, and there already",
                    escape_name(options.out),
                )
            )
            if not new:
                say_strangers(list_foreign_paths(bundle, out), print_line)
            print_line(origin(options.file, bool(bundle.signature), bundle.signer))
            print_line("the lock was not checked: `reprobuild unbundle` checks it, and this program cannot")
            print_line(
                "of the image's layers, recipe, context, sources, README.md and programs only the bytes were compared,"
                " with the sender's own list: `reprobuild unbundle` holds them against the lock; without that, run and"
                " follow them if you trust the sender"
            )
            count = _count_moved_inputs(bundle, out)
            if count:
                print_line(
                    "of the inputs %d are not there, as `reprobuild unbundle` moves them into its store: it brings"
                    " them again, and so does this program into a new directory" % count
                )
            if _has_their_page(bundle, out):
                print_line(
                    "%s is the sender's page, and was not looked into: open it if you trust the sender" % PAGE
                )
            if options.load:
                load(out, options.load, name, any(member.path == "image.sif" for member in bundle.members))
    except RefusedError as err:
        print_line("error: %s\n\nhint: %s" % (err, err.hint))
        return 11
    except OSError as err:
        place = "%s: " % escape_text(str(err.filename)) if err.filename else ""
        print_line(
            "error: %s%s\n\nhint: check the path, its permissions and the space left" % (place, err.strerror)
        )
        return 11
    except KeyboardInterrupt:
        print_line("interrupted; run it again to go on")
        return 130
    return 0


def _settle(bundle: Bundle, tree: str) -> None:
    check_names(bundle.document, tree)


def _count_moved_inputs(bundle: Bundle, out: str) -> int:
    """Return the number of inputs that left the bundle's directory."""
    inputs = (member.path for member in bundle.members if member.path.startswith("store/"))
    return sum(not os.path.exists(os.path.join(out, path)) for path in inputs)


def _has_their_page(bundle: Bundle, out: str) -> bool:
    """Return whether the page is that of the sender.

    A check of the image writes another.
    """
    path = os.path.join(out, PAGE)
    sent = [member.sha256 for member in bundle.members if member.path == PAGE]
    return os.path.isfile(path) and hash_file(path) in sent


def _make_progress_printer() -> Callable[[int, int], None]:
    """Return a callback that prints progress once a second."""
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > 1 or done == total:
            last = time.monotonic()
            print(
                "  %d of %d MB" % (done / 1e6, total / 1e6),
                end="\n" if done == total else "\r",
                file=sys.stderr,
            )

    return show


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
