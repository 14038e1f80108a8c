"""The image of a lock in an engine, without an output directory."""

from __future__ import annotations

import hashlib
from pathlib import Path

from reprobuild.builders.native import build_image
from reprobuild.context import RunContext
from reprobuild.engines.model import Engine
from reprobuild.errors import LockError
from reprobuild.infra.progress import CountedSteps
from reprobuild.lock.file import write_new_lock
from reprobuild.lock.model import Lock, SealedLock, unseal
from reprobuild.lock.system import FILES
from reprobuild.pipeline.fetch_inputs import fetch_inputs
from reprobuild.pipeline.render import refuse_secrets
from reprobuild.realise.realise import realise
from reprobuild.recipe.payload import pack_runtime, payload_files
from reprobuild.store.roots import record_lock

_RUNTIME = f"{FILES[1:]}/lib/"  # this program's own package, which has no value of the user


def image_key(lock: Lock, context: RunContext) -> str:
    """Return a digest (hex) of what decides the image of a lock here: the lock, and this program's runtime package."""
    runtime = pack_runtime(context.store)
    return hashlib.sha256(f"image of a trial, 1 {unseal(lock).digest} {runtime}".encode()).hexdigest()


def load_trial_image(lock: Lock, name: str, engine: Engine, context: RunContext) -> SealedLock:
    """Build the image of a lock out of the store, and load it into an engine.

    Layers that the store and the engine have are used again, so that a mixture of two known locks takes seconds.

    Raises:
        LockError, BuildError: the lock gives no image.
        FetchError: a file is unavailable.
        EngineError: the engine failed.
    """
    fetch_inputs(lock, context)
    say = CountedSteps(context.say)
    sealed = realise(unseal(lock), context.store, say)
    if say.count:  # those steps are over
        context.say("making the image")
    files = payload_files(sealed, context.store)
    refuse_secrets({path: content for path, content in files.items() if not path.startswith(_RUNTIME)})
    with context.store.scratch() as scratch:
        folder = scratch / "out"  # the lock of `scratch` itself is held
        image = build_image(
            sealed,
            context.store,
            folder,
            files=files,
            reference=name,
            progress=context.progress,
        )
        engine.load(folder / image.layout, name, image.digests, context.env, context.progress)
    return sealed


def keep_trial_lock(lock: Lock, folder: Path, context: RunContext) -> Path | None:
    """Write the lock of a mixture, and let the store keep its files.

    Its name follows from its content: a later search does not change it.

    Returns:
        Its path; None if it looks as if it held a secret.
    """
    path = folder / f"{lock.digest[:12]}.lock"
    try:
        write_new_lock(lock, path)
    except LockError:
        return None
    record_lock(lock, path, context.store, "bisect")
    return path
