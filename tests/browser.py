"""A real browser whose only way out is a proxy of ours: it hands out our pages, and refuses and records all else."""

from __future__ import annotations

import base64
import json
import mimetypes
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_core_python.base import AXE_SCRIPT
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from tests.conftest import ROOT
from tests.loopback import Server

HOST = "pages.example"
# As root there is no sandbox; the rest keeps the browser from asking its maker for anything.
SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--disable-features=OptimizationHints,MediaRouter,AutofillServerCommunication", "--disable-extensions",
    "--proxy-bypass-list=<-loopback>",
)  # fmt: skip
# What Chromium itself asks for in spite of them, through a tunnel that the proxy refuses.
OWN_OF_BROWSER = re.compile(r"^([a-z0-9-]+\.)+(google|googleapis|gstatic|gvt1)\.com:443$")


@dataclass
class Proxy:
    """What there is to hand out, by path, and every request that was made: method and target."""

    pages: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)


class Browser:
    """A browser with one page at a time, and what can be seen of it."""

    def __init__(self, driver: Chrome, proxy: Proxy) -> None:
        self.driver, self.proxy = driver, proxy

    def open(
        self, content: str, *, width: int = 1280, features: Mapping[str, str] | None = None, media: str = ""
    ) -> None:
        """Show a page, at a width, with features of media (`prefers-color-scheme`) or as print."""
        path = f"/{len(self.proxy.pages)}.html"
        self.proxy.pages[path] = content.encode()
        self.visit(path, width=width, features=features, media=media)

    def visit(
        self, path: str, *, width: int = 1280, features: Mapping[str, str] | None = None, media: str = ""
    ) -> None:
        """Show a page of the proxy."""
        self.look(width=width, features=features, media=media)
        self.driver.get_log("performance")
        self.driver.get_log("browser")
        self.proxy.asked.clear()
        self.driver.get(f"http://{HOST}{path}")
        # On a busy machine a script may still meet the page before.
        ready = "return document.readyState === 'complete' && location.pathname"
        WebDriverWait(self.driver, 60).until(lambda _: self.script(ready) == urlsplit(path).path)

    def look(self, *, width: int = 1280, features: Mapping[str, str] | None = None, media: str = "") -> None:
        """Change the width and the features of media."""
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
        self.cdp("Emulation.setDeviceMetricsOverride", **size)
        told = [{"name": name, "value": value} for name, value in (features or {}).items()]
        self.cdp("Emulation.setEmulatedMedia", media=media, features=told)

    def cdp(self, command: str, **arguments: Any) -> Any:
        """Give a command of the browser's own protocol: https://chromedevtools.github.io/devtools-protocol/."""
        return self.driver.execute_cdp_cmd(command, arguments)

    def script(self, text: str, *arguments: Any) -> Any:
        """Run a script in the page."""
        return self.driver.execute_script(text, *arguments)

    def open_all(self) -> None:
        """Open all that can be opened."""
        self.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    def requests(self) -> set[str]:
        """Return the addresses that the page asked for since it was opened, its own and `data:` left out.

        The browser's log of the page has them, and the proxy, which also sees what the browser asks its maker.
        """
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = {
            one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"
        }
        asked |= {target for _, target in self.proxy.asked if not OWN_OF_BROWSER.search(target)}
        return {one for one in asked if one not in ("data:,", self.driver.current_url.partition("#")[0])}

    def complaints(self) -> list[str]:
        """Return what stands in the console."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def violations(self) -> list[str]:
        """Return the rules of axe that the page violates, with the first element of each."""
        self.script(AXE_SCRIPT)
        found = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {resultTypes: ['violations']}).then((result) => done(result.violations), done);"
        )
        return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]

    def overflow(self) -> int:
        """Return by how much the page is wider than its window."""
        element = "document.documentElement"
        return int(self.script(f"return {element}.scrollWidth - {element}.clientWidth"))

    def pages(self) -> int:
        """Return the number of A4 pages that the browser prints."""
        document = self.cdp("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"]
        return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(document)))

    def picture(self, path: Path) -> None:
        """Write what the window shows."""
        path.write_bytes(base64.b64decode(self.cdp("Page.captureScreenshot")["data"]))


@pytest.fixture(scope="session")
def proxy() -> Iterator[tuple[Proxy, int]]:
    """The proxy and its port."""
    state = Proxy()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append((self.command, self.path))
            url = urlsplit(self.path)
            content = state.pages.get(url.path) if url.netloc == HOST else None
            kind, _ = mimetypes.guess_type(url.path)
            self.send_response(403 if content is None else 200)
            self.send_header("Content-Type", f"{kind or 'text/html'}; charset=utf-8")
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        do_CONNECT = do_POST = do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield state, server.server_address[1]
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser(proxy: tuple[Proxy, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Debian's Chromium, unpacked the first time."""
    folder = ROOT / "build" / "engines" / "browser"
    argv = [sys.executable, str(ROOT / "dev" / "private_browser.py"), "prepare", "--folder", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    state, port = proxy
    options = ChromeOptions()
    options.binary_location = str(folder / "bin" / "chromium")
    profile = tmp_path_factory.mktemp("profile")
    for switch in (*SWITCHES, f"--proxy-server=127.0.0.1:{port}", f"--user-data-dir={profile}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(str(folder / "bin" / "chromedriver")))
    try:
        driver.set_script_timeout(300)  # a busy machine takes its time
        driver.get("about:blank")  # instead of its own first page, which asks for much
        yield Browser(driver, state)
    finally:
        driver.quit()
