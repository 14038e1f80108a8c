"""The metadata of a distribution.

https://packaging.python.org/en/latest/specifications/core-metadata/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.names import HOSTILE

if TYPE_CHECKING:
    from packaging.metadata import RawMetadata


MOST_FIELDS = (
    500  # kinds of fields; the specification has about 40, and the parser's time grows with their square
)
_FIELD = re.compile(rb"(?m)^([^\s:]+):")
_END = re.compile(rb"\r?\n\r?\n")


def read_metadata(text: bytes, origin: str) -> RawMetadata:
    """Return the known fields of a METADATA or PKG-INFO.

    They are not validated.

    Args:
        text: the file.
        origin: the distribution's name for the user.

    Raises:
        BuildError: it has too many kinds of fields.
    """
    fields = len({name.lower() for name in _FIELD.findall(_END.split(text, maxsplit=1)[0])})
    if fields > MOST_FIELDS:
        raise BuildError(
            f"{origin} has metadata of {fields} kinds of fields, and at most {MOST_FIELDS} are read",
            hint=HOSTILE,
        )
    from packaging.metadata import parse_email  # with the list of all licences, 20 ms; most were read before

    return parse_email(text)[0]
