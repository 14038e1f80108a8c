"""Servers of the inputs of an online recipe on loopback: an index, a repository, apt's archives, a start image."""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import requests
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.apt.apt_config import configured_index
from reprobuild.lock.model import Lock
from reprobuild.lock.system import EPOCH
from reprobuild.realise.base import realise_base
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.store.store import Store
from tests.conftest import EXAMPLE, ROOT
from tests.loopback import Loopback
from tests.system.samples import bring

sys.path.insert(0, str(ROOT / "dev"))
from private_registry import Registry  # a script of dev/, which is no package

DIRECT = "click"
# An image of Debian has them, and more.
START = ("apt", "debian-archive-keyring", "passwd")


class Sources(http.server.SimpleHTTPRequestHandler):
    """Serves files of a directory, and below `/apt/NAME/` an archive of this machine's apt.

    The files of the lock come from the store.
    """

    archives: ClassVar[dict[str, str]] = {}
    debs: ClassVar[dict[str, Path]] = {}

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are no news."""

    def do_GET(self) -> None:
        """Answer with a file, or with the archive's answer."""
        if not self.path.startswith("/apt/"):
            super().do_GET()
            return
        _, _, name, inside = self.path.split("/", 3)
        url = f"{self.archives[name]}{inside}"
        if url in self.debs:
            code, content = 200, self.debs[url].read_bytes()
        else:
            answer = requests.get(url, timeout=300)
            code, content = answer.status_code, answer.content
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def serve(folder: Path, lock: Lock, store: Store) -> Loopback:
    """Return a server of `/simple/` (a Simple API), `/direct/`, `/tinytrain.git` and `/apt/`.

    The Simple API lacks the project `DIRECT`, whose file is in `/direct/`.
    """
    for wheel in lock.wheels:
        page = folder / ("direct" if wheel.name == DIRECT else f"simple/{canonicalize_name(wheel.name)}")
        page.mkdir(parents=True, exist_ok=True)
        os.link(store.verified(wheel.file.sha256, wheel.file.filename), page / wheel.file.filename)
    repository = folder / "tinytrain.git"
    for words in (["clone", "--quiet", "--bare", str(EXAMPLE / "tinytrain.bundle"), str(repository)],
                  ["-C", str(repository), "update-server-info"]):  # fmt: skip
        subprocess.run(["git", *words], check=True, capture_output=True)
    debs = {deb.file.url: store.verified(deb.file.sha256, deb.file.filename) for deb in lock.base.packages}
    Sources.debs = debs
    return Loopback(functools.partial(Sources, directory=str(folder)))  # type: ignore[arg-type]  # it makes handlers


def push_start_image(store: Store, registry: Registry) -> tuple[str, frozenset[str]]:
    """Push an image that has apt and less than the lock; return its address, and the names of its packages."""
    index = configured_index("debian", "bookworm", env=os.environ, folder=store.root / "apt")
    base, _ = resolve_base((), index=index, roots=list(START))
    bring((*base.packages, *base.tools), store)
    tree = store.verified(realise_base(base, store, EPOCH), "the start image")
    name = f"{registry.host}/start"
    path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    subprocess.run(["docker", "import", "--change", path, tree, f"{name}:1"], check=True, capture_output=True)
    done = subprocess.run(["docker", "push", f"{name}:1"], check=True, capture_output=True, text=True)
    digest = next(word for word in done.stdout.split() if word.startswith("sha256:"))
    return f"{name}@{digest}", frozenset(base.installed)
