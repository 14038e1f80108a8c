"""The package `reprobuild` of an image: the names that user code imports; the program itself is not there.

`reprobuild.payload` writes this file to `reprobuild/__init__.py`, behind the site-packages of the environment: an
installed reprobuild comes first.
"""

from reprobuild_runtime import enforce_reproducibility, generator, seed_worker

__all__ = ["enforce_reproducibility", "generator", "seed_worker"]
