"""Files in the text of a recipe, readable if both formats can repeat them exactly."""

from __future__ import annotations

import base64

from reprobuild.recipe.online.model import EmbeddedFile

END = "EOF"  # of every here-document
_LINE = 76  # characters of base64, as the program `base64` writes it


def embed(path: str, content: bytes) -> EmbeddedFile:
    """Return a file in the text of a recipe.

    Text that both formats repeat exactly stays readable; any other content becomes base64.
    """
    if _is_plain(content):
        return EmbeddedFile(path=path, text=content.decode(), encoded=False)
    encoded = base64.b64encode(content).decode()
    lines = [encoded[start : start + _LINE] for start in range(0, len(encoded), _LINE)]
    return EmbeddedFile(path=path, text="".join(f"{line}\n" for line in lines), encoded=True)


def _is_plain(content: bytes) -> bool:
    """Return whether a here-document of a Dockerfile and an Apptainer.def gives exactly this content.

    Apptainer reads a line with `%` as a section and one with `Bootstrap:` as a stage, and replaces `{{ name }}`.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return False
    lines = text.split("\n")
    return (
        text.endswith("\n")
        and "{{" not in text
        and all(line.replace("\t", " ").isprintable() for line in lines)
        and not any(line.lstrip().lower().startswith(("%", "bootstrap:")) for line in lines)
        and END not in {line.strip() for line in lines}
    )
