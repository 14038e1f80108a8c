"""The steps of a capture: claim, run the parts, publish."""

from __future__ import annotations

import os
import shutil
import time
from typing import Any, Dict, Optional, Sequence

from reprobuild_portable.capture.interpreter import INTERPRETER
from reprobuild_portable.capture.limits import SECONDS
from reprobuild_portable.capture.model import UnwritableError
from reprobuild_portable.capture.notes import _list_losses
from reprobuild_portable.capture.output import (
    ALREADY_TAKEN,
    BEING_TAKEN,
    _add_directory_to_errors,
    _blocked_signals,
    _claim_target,
    _finish_undisturbed,
    _is_taken,
    _publish_directory,
    _remove,
    _scratch,
    _write,
)
from reprobuild_portable.capture.parts import _take_all
from reprobuild_portable.capture.repositories.included import _resolve_directories
from reprobuild_portable.capture.scrub import _harmless


def capture(
    folder: str, seconds: float = SECONDS, accept: Sequence[str] = (), include: Sequence[str] = ()
) -> Dict[str, Any]:  # fmt: skip
    """Capture the environment of this process into a directory.

    For training scripts: it raises no exception, prints no text and ends after about `seconds`.

    Args:
        folder: the path of the snapshot; it does not exist yet, or is an empty directory.
        seconds: the budget of the whole.
        accept: files that look like secrets and are to be captured, as REPOSITORY/PATH.
        include: files that are in no repository, or that git ignores, and are to be captured; `interpreter`
            packs the Python that runs this.

    Returns:
        {"folder", "captured": whether this call wrote it, "note": why not, "parts": {name: outcome},
        "withheld", "warnings", "notes"}.
    """
    try:
        return _capture(os.fspath(folder), seconds, False, accept, include)
    except UnwritableError as err:
        return _report(str(folder), note=str(err))
    except Exception as err:  # a snapshot is never worth the job
        return _report(str(folder), note=f"the capture failed: {_harmless(err)}")


def _report(folder: str, note: str = "", captured: bool = False, **more: Any) -> Dict[str, Any]:
    return {
        "folder": folder,
        "captured": captured,
        "note": note,
        "parts": {},
        "withheld": [],
        "warnings": [],
        "notes": [],
        **more,
    }


def _capture(
    folder: str, seconds: float, program: bool, accept: Sequence[str] = (), include: Sequence[str] = ()
) -> Dict[str, Any]:  # fmt: skip
    folder = os.path.realpath(folder) if os.path.islink(folder) else os.path.abspath(folder)
    packing = INTERPRETER in include
    include = _resolve_directories([name for name in include if name != INTERPRETER])
    started = time.monotonic()
    claim: Optional[str] = None
    scratch = ""
    captured = False
    try:
        with _blocked_signals(
            program
        ):  # one between the two, or before their names are known, would leave them
            claim = _claim_target(folder, seconds)
            scratch = _scratch(claim) if claim else ""
        if claim is None:
            return _report(folder, note=ALREADY_TAKEN if _is_taken(folder) else BEING_TAKEN)
        document, texts, files, withheld = _take_all(
            started + seconds, scratch, program, accept, include, packing
        )
        with _add_directory_to_errors(folder):
            _write(claim, document, texts, files)
            captured = _publish_directory(claim, folder)
    finally:
        if program:
            _finish_undisturbed()
        if scratch:
            _remove(scratch, tries=50 if program else 1)
        if claim and not captured:  # else the name is free, or another process has it already
            shutil.rmtree(claim, ignore_errors=True)
    note = "" if captured else "another process was quicker"
    parts = {name: entry["outcome"] for name, entry in document["parts"].items()}
    notes = document["notes"] + _list_losses(document["repositories"])
    return _report(
        folder, note=note, captured=captured, parts=parts, withheld=withheld, warnings=document["warnings"],
        notes=notes,
    )  # fmt: skip
