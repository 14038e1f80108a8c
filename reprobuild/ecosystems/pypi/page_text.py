"""Checks of HTML lists of files.

An answer must be a complete list; the targets of links are checked, too: a server can answer anything. A page
that breaks off at the end of its answer, or a login page, would otherwise be a list with fewer files: another
wheel would be chosen, or another index used.
"""

from __future__ import annotations

import html
import re
import urllib.parse
from collections.abc import Iterator

_FILE = re.compile(r"\.(whl|tar\.(gz|bz2|xz)|tgz|zip|egg|exe)\b", re.IGNORECASE)
_DOCUMENT = re.compile(r"<(!|html)", re.IGNORECASE)
_END = re.compile(r"</(body|html)\s*>", re.IGNORECASE)
_OTHER = re.compile(r"<(form|script|input)\b", re.IGNORECASE)

# A project with 30,000 files has the longest page.
MOST_LINKS = 200_000
_MOST_ATTRIBUTES = 100
_ANCHOR = re.compile(r"<a(?=\s)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""\s*([^\s=>/"']+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+)))?""")
_ENTITY = re.compile(r"&#?\w+;")
# A link that is joined to itself: a page has some thousand of them.
_PLAIN_LINK = re.compile(r"https?://[a-z0-9.-]+(?::\d{1,5})?/[\w./~+%-]*(?:#\w+=\w+)?", re.ASCII)


def check_count(count: int, most: int = MOST_LINKS) -> None:
    """Refuse a page of too many parts before it is parsed.

    Raises:
        ValueError: two bytes of it would need some hundred in memory.
    """
    if count > most:
        raise ValueError(f"it has more than {most} links or values")


def read_anchors(text: str) -> Iterator[dict[str, str]]:
    """Yield the attributes of each link of an HTML page.

    Their names are in small letters.

    Raises:
        ValueError: it has too many links, or a character reference with too many digits.
    """
    begin = -1
    for count, match in enumerate(_ANCHOR.finditer(text)):
        check_count(count)
        if begin >= 0:
            yield _parse_attributes(text, begin, match.start())
        begin = match.end()
    if begin >= 0:
        yield _parse_attributes(text, begin, len(text))


def _parse_attributes(text: str, place: int, end: int) -> dict[str, str]:
    """Return the attributes at the beginning of a part of a text."""
    attributes: dict[str, str] = {}
    while len(attributes) < _MOST_ATTRIBUTES and (match := _ATTRIBUTE.match(text, place, end)):
        value = match[2] or match[3] or match[4] or ""
        if "&" in value:
            value = _ENTITY.sub(lambda entity: html.unescape(entity[0]), value)
        attributes.setdefault(match[1].lower(), value)
        place = match.end()
    return attributes


def check_list(text: str) -> None:
    """Check that an HTML page is a complete link list.

    The form is that of PEP 503.

    Raises:
        ValueError: it is not such a list, or breaks off.
    """
    begin = text.lstrip("\ufeff \t\r\n")[:16]
    if not begin.startswith("<"):
        raise ValueError("it is no list of files, though it is said to be HTML")
    if _OTHER.search(text) and not _FILE.search(text):
        raise ValueError("it is no list of files, but a web page: is a login needed, or a proxy in between?")
    if _DOCUMENT.match(begin) and not _END.search(text):
        raise ValueError("the page breaks off before its end")


def join_link(page: str, link: str) -> str | None:
    """Return the address of a page's link, or None.

    A page of a server leads to servers, never to files of this machine.
    """
    if _PLAIN_LINK.fullmatch(link):
        return link
    try:
        url = urllib.parse.urljoin(page, link)
        scheme = urllib.parse.urlsplit(url).scheme
    except ValueError:
        return None
    known = ("http", "https", "file") if page.startswith("file:") else ("http", "https")
    return url if scheme in known else None
