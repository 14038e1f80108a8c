"""Download the distributions of an online recipe, each by its sha256, and run no code of them.

    download.py LIST FOLDER

Each line of LIST has the sha256, the path in FOLDER, the project, and the locked address or `-`. The file `index`
beside LIST has the index of pip, for a build without another one. This program starts on each Python of a lock, without
its site packages. It has the user's logins, so nothing else runs beside it.
"""

import base64
import hashlib
import html
import http.client
import netrc
import os
import re
import sys
from itertools import chain
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import BaseHandler, Request, build_opener

LINK = re.compile(r"""<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
ERRORS = (OSError, ValueError, http.client.HTTPException)


class Logins(BaseHandler):
    """Give each host its own entry of netrc, by https alone.

    Only the index that the user names may have another port. urllib makes a new request of each redirection, and does
    not repeat the header.
    """

    def __init__(self, path, index):
        """Read the logins of a file, if it exists."""
        self.hosts = netrc.netrc(str(path)).hosts if path.exists() else {}
        self.index = urlsplit(index).netloc

    def https_request(self, request):
        """Add the login of the host to a request."""
        address = urlsplit(request.full_url)
        entry = self.hosts.get(address.hostname)
        if entry and (address.port in (None, 443) or address.netloc == self.index):
            login = base64.b64encode(":".join([entry[0], entry[2] or ""]).encode()).decode()
            request.add_unredirected_header("Authorization", "Basic " + login)
        return request


def find_links(opener, index, project, name, sha256):
    """Return the links of an index to a file."""
    page = Request(index.rstrip("/") + "/" + project + "/", headers={"Accept": "text/html"})
    with opener.open(page, timeout=60) as answer:
        text, address = answer.read().decode("utf-8", "replace"), answer.geturl()
    links = [urljoin(address, html.unescape(double or single)) for double, single in LINK.findall(text)]
    return [
        link for link in links if sha256 in link or unquote(urlsplit(link).path).rpartition("/")[2] == name
    ]


def download(opener, link, path, sha256):
    """Write a file, and return whether it has the sha256."""
    if not link.lower().startswith(("http://", "https://")):
        return False
    content = hashlib.sha256()
    address = quote(link.partition("#")[0], safe=":/?&=%~+!$,;'@()*[]")
    with opener.open(address, timeout=60) as answer, path.open("wb") as stream:
        for block in iter(lambda: answer.read(1 << 20), b""):
            content.update(block)
            stream.write(block)
    return content.hexdigest() == sha256


def attempt(action, *arguments):
    """Return what an action returns, or None if it fails three times."""
    for _ in range(3):
        try:
            return action(*arguments)
        except HTTPError as err:
            sys.stderr.write(f"{err}: {err.geturl().partition('?')[0]}\n")
            return None
        except ERRORS as err:
            sys.stderr.write(f"{err}\n")
    return None


def main(listed, folder):
    """Download each file of a list from an index, or else from its locked address."""
    index = os.getenv("PIP_INDEX_URL") or Path(listed).with_name("index").read_text().strip()
    indexes = [index, *os.getenv("PIP_EXTRA_INDEX_URL", "").split()]
    if any("@" in urlsplit(address).netloc for address in indexes):
        sys.exit("an index has a login in its address: put it into ~/.netrc")
    opener = build_opener(Logins(Path("~/.netrc").expanduser(), index))
    with Path(listed).open() as rows:
        files = [row.split() for row in rows]
    for sha256, place, project, address in files:
        directory, _, quoted = place.partition("/")
        name = unquote(quoted)
        path = Path(folder, directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        pages = (attempt(find_links, opener, place, project, name, sha256) or [] for place in indexes)
        links = chain(chain.from_iterable(pages), [address])
        if not any(attempt(download, opener, link, path, sha256) for link in links):
            sys.exit(name + ": no index has the file of the lock, and its address has not either")


if __name__ == "__main__":
    main(*sys.argv[1:])
