"""Commands as lists of quoted words, as a program starts another one without a shell."""

from __future__ import annotations

import re
from typing import NamedTuple


class ListRule(NamedTuple):
    """The marks and the pattern of a list, and the pattern that its line must match."""

    marks: tuple[str, ...]
    pattern: str
    near: str


_PROGRAMS = (
    r"(?:curl|mysql(?:dump|admin|import)?|mariadb(?:-[a-z]{1,9})?|sshpass|mcl?i?|ldap[a-z]{3,9}|(?:redis|keydb|valkey)-cli"
    r"|sqlcmd|bcp|mongo[a-z]{0,9}|twine|htpasswd|poetry|(?:smb|rpc)client|lftp|7z[arz]?|(?:un)?zip|(?:un)?rar|cqlsh|rabbitmqadmin|ipmitool|mosquitto_[a-z]{2,3}|beeline|plink|ngrok|openssl|sqlplus|sqlcl"
    r"|sqlldr|expdp|impdp|docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|az)"
)
_QUOTED_PROGRAM = rf"\\?[\"'](?:[\w./-]{{0,60}}/)?{_PROGRAMS}\\?[\"']"
# A word in quotes, or a name that stands for one, with what it is called or indexed with.
_TEXT_OF_LIST = r"[bfru]{0,2}(?:\\?\"(?P<double>[^\"\\\n]{0,200})\\?\"|'(?P<single>[^'\\\n]{0,200})')"
_NAME_OF_LIST = r"[A-Za-z_][\w.]{0,60}(?:[(\[][^()\[\]\n]{0,60}[)\]])?"
_ITEM = re.compile(rf"{_TEXT_OF_LIST}|(?<![\w.]){_NAME_OF_LIST}")
_UNNAMED = re.sub(r"\?P<\w+>", "?:", _TEXT_OF_LIST)
WORDS_OF_LIST = ListRule(
    (
        *(
            "curl",
            "mysql",
            "mariadb",
            "sshpass",
            '"mc',
            "'mc",
            "ldap",
            "redis-cli",
            "keydb-cli",
            "valkey-cli",
            "sqlcmd",
        ),
        *(
            "bcp",
            "mongo",
            "twine",
            "cqlsh",
            "rabbitmqadmin",
            "ipmitool",
            "mosquitto_",
            "beeline",
            "plink",
            '"ngrok',
            "'ngrok",
            'rar"',
            "rar'",
            "htpasswd",
            "poetry",
            "smbclient",
            "rpcclient",
            "lftp",
            '"7z',
            "'7z",
            'zip"',
            "zip'",
        ),
        *(
            "openssl",
            "sqlplus",
            "sqlcl",
            "sqlldr",
            "expdp",
            "impdp",
            "docker",
            "podman",
            "nerdctl",
            "buildah",
            "skopeo",
        ),
        *('"helm', "'helm", '"oras', "'oras", '"crane', "'crane", '"az"', "'az'"),
    ),
    rf"(?<=[\[(,\s])(?P<secret>{_QUOTED_PROGRAM}"
    rf"(?:[ \t]{{0,4}},[\s+]{{0,40}}(?:{_UNNAMED}|{_NAME_OF_LIST})(?=[ \t]{{0,4}}[,\])\r\n]|\Z)){{1,24}})",
    rf"{_QUOTED_PROGRAM}[ \t]{{0,4}},",
)


def join_words(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """Return a list as a command line, and (place in the line, start and end in the list) of each word."""
    line, places = "", []
    for match in _ITEM.finditer(text):
        group = match.lastgroup
        places.append((len(line), *match.span(group or 0)))
        line += (match[group] if group else "x" * len(match[0])) + " "
    return line, places


def place_in_list(places: list[tuple[int, int, int]], start: int, end: int) -> tuple[int, int]:
    """Return start and end, in the list, of a part of the command line."""
    begin, first, last = max(place for place in places if place[0] <= start)
    return first + start - begin, min(first + end - begin, last)
