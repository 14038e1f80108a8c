"""Services are asked for real, on the loopback: those that answer, refuse, err, hang, and are not there."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from reprobuild.config.services import Service, read_services
from reprobuild.doctor.indexes import judge_indexes
from reprobuild.doctor.services import probe, probe_address, report_unprobed
from tests.loopback import Server

SECRET = "hunter2-secret"


class _Answers(BaseHTTPRequestHandler):
    """Answers with the code that the path names; /hang never."""

    def do_GET(self) -> None:
        if self.path.startswith("/hang"):
            time.sleep(3)
            return
        self.server.asked.append(self.path)  # type: ignore[attr-defined]  # our own, on a server of http.server
        self.send_response(int(self.path.strip("/").partition("/")[0]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served() -> Iterator[tuple[str, list[str]]]:
    """An address on the loopback, and the paths that were asked for."""
    with Server(("127.0.0.1", 0), _Answers) as server:
        server.asked = []  # type: ignore[attr-defined]  # our own, on a server of http.server
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", server.asked  # type: ignore[attr-defined]  # our own, on a server of http.server
        server.shutdown()
        thread.join()


def service(url: str) -> Service:
    return Service(url=url, kind="wheels", note="made", status="unverified live")


def test_who_answers(served: tuple[str, list[str]]) -> None:
    root, asked = served
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}/x/"
        services = {
            "well": service(f"{root}/200/{{name}}"), "again": service(f"{root}/200/{{version}}/x"),
            "empty": service(f"{root}/404/"), "login": service(f"{root}/401/"), "forbids": service(f"{root}/403/"),
            "errs": service(f"{root}/500/"), "hangs": service(f"{root}/hang/"), "closed": service(closed),
            "odd": service("http://user:hidden-password@127.0.0.1:1/{x}"),
        }  # fmt: skip
        began = time.monotonic()
        found = {finding.name.removeprefix("service "): finding for finding in probe(services, 2)}
    assert time.monotonic() - began < 20
    assert {name: finding.state for name, finding in found.items()} == {
        "well": "ok", "again": "ok", "empty": "ok", "login": "ok", "forbids": "warning", "errs": "warning",
        "hangs": "warning", "closed": "warning", "odd": "warning",
    }  # fmt: skip
    assert sorted(asked) == ["/200/", "/401/", "/403/", "/404/", "/500/"]  # each once
    assert "HTTP 403" in found["forbids"].seen
    assert "HTTP 500" in found["errs"].seen
    assert found["hangs"].seen == f"{root}/hang/: no answer in 2 s"
    assert "refused" in found["closed"].seen
    assert "hidden-password" not in str(found)
    assert all(
        "--service NAME=URL" in finding.fix for finding in found.values() if finding.state == "warning"
    )


def test_addresses_that_are_asked() -> None:
    services = read_services({})
    found = {name: probe_address(one) for name, one in services.items()}
    # Ubuntu's own archive has no https; its indexes are signed.
    assert {name for name, url in found.items() if not url.startswith("https://")} == {
        "ubuntu-archive",
        "ubuntu-ports",
    }
    assert not [url for url in found.values() if "{" in url or not url.endswith("/")]
    assert found["nvidia-pytorch"] == "https://nvcr.io/v2/"
    assert found["docker-hub"].endswith(".io/")
    assert all(name in report_unprobed(services).seen for name in services)


def unconfigured() -> dict[str, str]:
    """Return the environment without settings of pip and uv."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    return {**env, "PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1"}


def test_indexes_of_pip_and_uv(served: tuple[str, list[str]], tmp_path: Path) -> None:
    root, asked = served
    host = root.removeprefix("http://")
    (tmp_path / "there").mkdir()
    env = {
        **unconfigured(),
        "PIP_INDEX_URL": f"http://joe:{SECRET}@{host}/200/simple",
        "PIP_EXTRA_INDEX_URL": f"{root}/500/simple {(tmp_path / 'gone').as_uri()}",
        "PIP_FIND_LINKS": f"{tmp_path / 'there'} {root}/404/",
    }  # fmt: skip
    found = {finding.name: finding for finding in judge_indexes(env, seconds=5)}
    gone = (tmp_path / "gone").as_uri()
    assert {name: finding.state for name, finding in found.items()} == {
        f"index {(tmp_path / 'there').as_uri()}": "ok", f"index {root}/404/": "ok",
        f"index {root}/200/simple": "ok", f"index {root}/500/simple": "warning", f"index {gone}": "warning",
    }  # fmt: skip
    assert sorted(asked) == ["/200/simple/pip/", "/404/", "/500/simple/pip/"]
    assert "HTTP 500" in found[f"index {root}/500/simple"].seen
    assert found[f"index {gone}"].seen == "it does not exist"
    assert found[f"index {gone}"].fix == (
        "correct its address in the configuration of pip or uv (`pip config debug` lists the files), or let it through"
    )
    assert SECRET not in str(found)
    assert all(f.meaning for f in found.values() if f.state == "warning")


def test_without_an_index(tmp_path: Path) -> None:
    env = {**unconfigured(), "PIP_NO_INDEX": "1"}
    (none,) = judge_indexes(env)
    assert (none.state, none.fix) == ("warning", "`pip config set global.index-url URL` names one")
    (left,) = judge_indexes({**env, "PIP_FIND_LINKS": str(tmp_path)}, offline=True)
    assert left.seen == f"1 were not probed (--offline): {tmp_path.as_uri()}"
    (tmp_path / "uv.toml").write_text("[")
    (broken,) = judge_indexes({**env, "UV_CONFIG_FILE": str(tmp_path / "uv.toml")} | {"UV_NO_CONFIG": ""})
    assert (broken.name, broken.state) == ("indexes", "warning")
    assert "uv.toml" in broken.seen
    assert broken.fix
