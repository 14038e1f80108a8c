"""The check if the services without configuration answer.

Each is requested once, in parallel, for headers only.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from reprobuild.config.services import SITE_FILE, Service, ServiceKind, request_distances
from reprobuild.doctor.model import DoctorFinding
from reprobuild.errors import FetchError
from reprobuild.infra.http.authorities import Authorities
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import AccessDeniedError, ForbiddenError, NotFoundError, split_credentials
from reprobuild.infra.http.netrc import Netrc
from reprobuild.infra.http.redaction import redact_address
from reprobuild.infra.http.retry import RetryPolicy

SECONDS = 8.0  # in all: a name lookup has no limit of its own, and may take minutes without a network
MANNERS = RetryPolicy(connect=4, read=5, tries=1, longest=0)
_MEANING = "{kind} that no other address has can neither be locked nor fetched here"
_FIX = (
    "change the firewall or proxy, or name a mirror: `--service NAME=URL`, or a line `NAME: URL` in the file of "
    f"{SITE_FILE}"
)


def probe_address(service: Service) -> str:
    """Return the address to request.

    It ends at the first placeholder; for an image's name it is that of the registry.
    """
    fixed = service.url.partition("{")[0]
    if "://" not in fixed:
        return f"https://{fixed.partition('/')[0]}/v2/"
    if not urlsplit(fixed).path:
        return f"{fixed}/"
    return fixed.rpartition("/")[0] + "/"


def report_unprobed(services: Mapping[str, Service]) -> DoctorFinding:
    """Return the finding for a diagnosis without network."""
    return DoctorFinding(
        name="services",
        state="not-asked",
        seen=f"{len(services)} were not probed (--offline): {', '.join(services)}",
    )


def probe(
    services: Mapping[str, Service], seconds: float = SECONDS, netrc: Netrc | None = None,
    authorities: Authorities | None = None,
) -> list[DoctorFinding]:  # fmt: skip
    """Request every service, and return the findings: first the services that answer, each part in order.

    Args:
        services: by name.
        seconds: the time after which a service counts as silent.
        netrc: the user's logins.
        authorities: the site's.
    """
    net = Net(manners=MANNERS, distances=request_distances(services), netrc=netrc, authorities=authorities)
    whole = {probe_address(service) for service in services.values()}
    shown = {name: redact_address(probe_address(service)) for name, service in services.items()}
    net.learn(
        {}, {redact_address(url).rstrip("/"): url.rstrip("/") for url in whole if redact_address(url) != url}
    )
    answers = probe_all(net, set(shown.values()), seconds)
    findings = [_make_finding(name, services[name].kind, url, answers[url]) for name, url in shown.items()]
    return sorted(findings, key=lambda finding: finding.state != "ok")


def probe_all(net: Net, urls: Collection[str], seconds: float) -> dict[str, str]:
    """Request addresses in parallel, and return "" or the complaint of each.

    Args:
        net: with one try for a request.
        urls: the addresses.
        seconds: the time after which an address counts as silent.
    """
    came: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def ask(url: str) -> None:
        came.put((url, _probe_server(net, url)))

    for url in sorted(urls):  # not by a pool, because at exit it would wait for hanging requests
        threading.Thread(target=ask, args=(url,), daemon=True).start()
    answers: dict[str, str] = {}
    end = time.monotonic() + seconds
    while len(answers) < len(urls):
        try:
            url, answer = came.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            break
        answers[url] = answer
    return dict.fromkeys(urls, f"no answer in {seconds:.0f} s") | answers


def _make_finding(name: str, kind: ServiceKind, url: str, complaint: str) -> DoctorFinding:
    public_url = split_credentials(url)[0]
    if not complaint:
        return DoctorFinding(name=f"service {name}", state="ok", seen=f"{public_url} answers")
    return DoctorFinding(
        name=f"service {name}", state="warning",
        seen=complaint if public_url in complaint else f"{public_url}: {complaint}",
        meaning=_MEANING.format(kind=kind), fix=_FIX,
    )  # fmt: skip


def _probe_server(net: Net, url: str) -> str:
    """Return "" if a server answers, else its complaint.

    A page that is not found is an answer, too.
    """
    try:
        net.probe(url)
    except ForbiddenError as err:  # a proxy answers so, as may a service that has no such page
        return str(err)
    except (NotFoundError, AccessDeniedError):
        return ""
    except FetchError as err:
        return str(err)
    return ""
