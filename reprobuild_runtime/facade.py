"""The package `reprobuild` of an image, for user code.

It has the names that user code imports, but not the program itself.

`reprobuild.payload` writes this file to `reprobuild/__init__.py`, after the site-packages of the environment: an
installed reprobuild comes first.
"""

from reprobuild_runtime import enforce_reproducibility, generator, mark_step, seed_worker

__all__ = ["enforce_reproducibility", "generator", "mark_step", "seed_worker"]
