"""The parts of a capture, each within its budget."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from reprobuild_portable.capture.distributions import take_distributions
from reprobuild_portable.capture.environment import _environment, take_environment
from reprobuild_portable.capture.freeze import _format_freeze
from reprobuild_portable.capture.interpreter import INTERPRETER, take_interpreter
from reprobuild_portable.capture.limits import BUDGETS
from reprobuild_portable.capture.model import PROGRAM, REASONS, VERSION, Context, GaveUpError, Taken
from reprobuild_portable.capture.notes import _notes
from reprobuild_portable.capture.python import take_python
from reprobuild_portable.capture.repositories.discovery import _take_repositories
from reprobuild_portable.capture.scrub import _harmless, _known_secrets, _scrub, _scrub_document
from reprobuild_portable.capture.system.command_line import take_command
from reprobuild_portable.capture.system.gpu import take_gpu
from reprobuild_portable.capture.system.jobs import take_modules, take_scheduler
from reprobuild_portable.capture.system.machine import take_machine
from reprobuild_portable.capture.system.packages import take_conda, take_dpkg, take_rpm


def _take_all(
    deadline: float,
    scratch: str,
    program: bool,
    accept: Sequence[str],
    include: Sequence[str],
    packing: bool,
) -> Tuple[Dict[str, Any], Dict[str, bytes], Dict[str, str], List[Dict[str, str]]]:
    """Run every part of a capture.

    Returns:
        The document, text files, files to be moved, and the names of redacted values.
    """
    environ = _environment(program)
    secrets = _known_secrets(environ)
    parts: Dict[str, Dict[str, Any]] = {}
    document: Dict[str, Any] = {
        "capture": VERSION,
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "reasons": REASONS,
        "parts": parts,
        "warnings": [],
    }
    texts: Dict[str, bytes] = {}
    files: Dict[str, str] = {}
    withheld: List[Dict[str, str]] = []

    def take(name: str, part: Callable[[Context], Taken], budget: float) -> Any:
        context = Context(
            environ, min(deadline, time.monotonic() + budget), scratch, program, secrets, accept, include
        )
        outcome, taken = _run_part(part, context)
        parts[name] = outcome
        if taken is None:
            return None
        texts.update(taken.texts)
        files.update(taken.files)
        withheld.extend(taken.withheld)
        return taken.facts

    for name, part in PARTS:
        if name == "distributions":
            document[name] = take(name, part, BUDGETS[name])
    installed = (document.get("distributions") or {}).get("found", [])
    repositories: List[Tuple[List[Dict[str, Any]], Dict[str, str], List[str]]] = []
    others = threading.Thread(  # git works meanwhile
        target=lambda: repositories.append(_take_repositories(installed, take, include)),
        name=PROGRAM,
        daemon=True,
    )
    others.start()
    for name, part in PARTS:
        if name != "distributions":
            document[name] = take(name, part, BUDGETS[name])
    if packing:
        document[INTERPRETER] = take(INTERPRETER, take_interpreter, BUDGETS[INTERPRETER])
    others.join()
    records, lines, mismatched = repositories[0]
    document["repositories"] = records
    if document.get("distributions") is not None:
        texts["requirements.txt"] = _format_freeze(installed, lines)
    document["warnings"] = [
        {"repository": record["name"], **place} for record in records for place in record["secrets"]
    ]
    document["withheld"] = withheld
    document["notes"] = _notes(document, mismatched)
    cleaned = {
        name: text if name.startswith("env.") else _scrub(text, secrets) for name, text in texts.items()
    }
    return _scrub_document(document, secrets), cleaned, files, withheld


def _run_part(part: Callable[[Context], Taken], context: Context) -> Tuple[Dict[str, Any], Optional[Taken]]:
    """Run a part in a thread until its deadline.

    A thread that hangs (a dead file server) is left behind.
    """
    box: List[Any] = []

    def work() -> None:
        try:
            box.append(part(context))
        except GaveUpError as err:
            box.append(err)
        except Exception as err:
            box.append(GaveUpError("failed", _harmless(err)))

    started = time.monotonic()
    thread = threading.Thread(target=work, name=PROGRAM, daemon=True)
    thread.start()
    timeout = max(0.0, context.deadline - started) + 0.5  # the part's own check of the clock reports more
    thread.join(min(timeout, threading.TIMEOUT_MAX))
    result = box[0] if box else GaveUpError("timed-out")
    outcome: Dict[str, Any] = {"outcome": "done", "seconds": round(time.monotonic() - started, 3)}
    if isinstance(result, GaveUpError):
        outcome["outcome"] = result.reason
        if result.why:
            outcome["why"] = result.why
        return outcome, None
    return outcome, result


PARTS: Tuple[Tuple[str, Callable[[Context], Taken]], ...] = (
    ("environment", take_environment),
    ("command", take_command),
    ("python", take_python),
    ("scheduler", take_scheduler),
    ("modules", take_modules),
    ("distributions", take_distributions),
    ("machine", take_machine),
    ("dpkg", take_dpkg),
    ("rpm", take_rpm),
    ("conda", take_conda),
    ("gpu", take_gpu),
)
