"""Text that no terminal and no CI server takes for a command.

It imports little, because each message of a command goes through it.
"""

from __future__ import annotations

import re

# Invisible characters that count as printable: Default_Ignorable_Code_Point without those of Cf and
# unassigned ones. https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt
UNSEEN = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0,
              *range(0xE0100, 0xE01F0)))
)  # fmt: skip
# Commands in the log of a CI server: `##vso[` and `##[` of Azure Pipelines, `##teamcity[` of TeamCity, anywhere in a
# line; `::name ...::` of GitHub at its start.
# https://learn.microsoft.com/azure/devops/pipelines/scripts/logging-commands
# https://www.jetbrains.com/help/teamcity/service-messages.html
# https://docs.github.com/actions/reference/workflow-commands-for-github-actions
_COMMAND = re.compile(r"(?i)#(?=#(?:vso|teamcity)?\[)|(?<![^\n])(?P<blank>[^\S\n]*):(?=:[a-z])")


def escape_text(text: str, *, lines: bool = False) -> str:
    """Return `text` with unprintable and invisible characters, and commands of CI servers, escaped.

    A terminal acts on C0 and C1 controls, bidirectional marks make a line read as another one, and two names
    that differ only in invisible characters look alike.

    Args:
        text: any text.
        lines: keep line breaks and tabs.
    """
    plain = "\n\t" if lines else ""
    shown = "".join(
        c if c in plain or (c.isprintable() and c not in UNSEEN) else c.encode("unicode_escape").decode()
        for c in text
    )
    return break_commands(shown)


def break_commands(text: str) -> str:
    """Return `text` with the first character of each command of a CI server escaped."""
    if "##" not in text and "::" not in text:
        return text
    return _COMMAND.sub(lambda match: "\\x23" if match["blank"] is None else f"{match['blank']}\\x3a", text)
