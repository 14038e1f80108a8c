"""reprobuild with another builder, and the needed leftovers.

`python -m proof.recorded FILE VERB ...` counts the lines of `image.leftovers` in use.

FILE receives {line: how often it described something that the builder left}.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reprobuild.builders import adopt, apptainer, leftovers, registry
from reprobuild.cli.main import main
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.recipe.runtime_config import RuntimeConfig


def lines(builder: str) -> list[str]:
    """Return the names of all lines for a builder."""
    paths = [f"/{line.path}" for line in leftovers.PATHS if line.builder == builder]
    labels = [f"label {name}" for name in leftovers.LABELS.get(builder, ())]
    return [*paths, *labels]


def seen(config: Mapping[str, Any], builder: str) -> list[str]:
    """Return the needed lines for labels and fields.

    They are those of a builder's configuration.
    """
    labels = [
        f"label {name}" for name in config.get("Labels") or {} if name in leftovers.LABELS.get(builder, ())
    ]
    fields = [f"field {name}" for name in leftovers.OF_THE_BUILD if config.get(name)]
    order = ["order of variables"] if list(config.get("Env") or ()) != sorted(config.get("Env") or ()) else []
    return [*labels, *fields, *order]


def record(file: Path) -> None:
    """Count the needs for each line in this process.

    The counts are written as they grow.
    """
    counts: Counter[str] = Counter()
    is_left_over, cleaned_config = leftovers.is_left_over, leftovers.read_clean_config

    def counted(entry: TarEntry, builder: str) -> bool:
        counts.update(
            f"/{line.path}" for line in leftovers.PATHS if line.builder == builder and line.describes(entry)
        )
        return is_left_over(entry, builder)

    def cleaned(config: Mapping[str, Any], builder: str) -> RuntimeConfig:
        counts.update(seen(config, builder))
        return cleaned_config(config, builder)

    def finished(*arguments: Any, **more: Any) -> Any:
        try:
            return adopted(*arguments, **more)
        finally:
            file.write_text(json.dumps(counts), encoding="utf-8")

    adopted = adopt.adopt_image
    vars(registry)["adopt"] = finished
    vars(apptainer)["cleaned_config"] = cleaned
    vars(adopt).update(is_left_over=counted, cleaned_config=cleaned)


if __name__ == "__main__":
    record(Path(sys.argv.pop(1)))
    main()
