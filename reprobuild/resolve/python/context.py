"""Context for resolving a freeze.

It combines decisions, services, the base and the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reprobuild.config.overrides import Decisions
from reprobuild.config.services import Service
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import decided_indexes
from reprobuild.ecosystems.pypi.page_cache import PageMemory
from reprobuild.ecosystems.pypi.simple_api import Pages
from reprobuild.lock.system import Base
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.archives import download_file, hash_blob
from reprobuild.resolve.python.base_distributions import Below
from reprobuild.resolve.python.classify import look_up_line, make_silent_patterns, rule_indexes
from reprobuild.resolve.python.debian_names import is_debian_only, versions_of
from reprobuild.resolve.python.previous_locks import KeptWheels
from reprobuild.resolve.python.resolve import LineContext
from reprobuild.snapshot.model import Requirement, Snapshot

NOTHING = Below()
_OF_SYSTEM = "/usr"  # sys.prefix of Debian's own Python
_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")


def make_file_lists(
    decisions: Decisions, services: Mapping[str, Service], context: ResolveContext
) -> FileLists:
    """Return the file lists of the machine's and the decided indexes.

    The network learns their logins.

    Raises:
        LockError: a decided index is not valid.
    """
    for remark in context.indexes.remarks:
        context.say(f"python: {remark}")
    decided, logins, tokens = decided_indexes(decisions.indexes, context.indexes)
    urls = (*decisions.services.values(), *(index.url for index in decided.values()))
    context.net.learn(logins, tokens, urls)
    pages = Pages(
        context.net,
        PageMemory(context.store, context.now),
        make_silent_patterns(services, decisions.services),
    )
    return FileLists(
        context.indexes, context.net, lambda name, version: rule_indexes(name, version, services), decided, pages,
        lambda url, filename, link: download_file(url, filename, context.store, context.net, link),
    )  # fmt: skip


def make_line_context(
    snapshot: Snapshot,
    services: Mapping[str, Service],
    base: Base,
    context: ResolveContext,
    below: Below = NOTHING,
) -> LineContext:
    """Return the context for the lines of a freeze.

    `below` are the distributions that pip installed into the base's image.
    """
    return LineContext(
        services=services,
        bring=lambda url, filename, link: download_file(url, filename, context.store, context.net, link),
        packages=versions_of(snapshot.packages), base=base.installed,
        image=base.image.reference if base.image else "", apart=is_isolated_env(snapshot), below=below,
        earlier=KeptWheels(context.store),
        hash_file=lambda sha256, algorithm: hash_blob(context.store, sha256, algorithm),
    )  # fmt: skip


def is_isolated_env(snapshot: Snapshot) -> bool:
    """Return whether the freeze's environment hides system distributions.

    A virtual environment may be configured to show them; a line that only Debian has is evidence of that.
    """
    if any(is_debian_only(line.name, line.version) for line in snapshot.requirements):
        return False
    python = snapshot.captured.python if snapshot.captured else None
    if python and python.prefix:
        return python.prefix.rstrip("/") != _OF_SYSTEM
    return any(variable.name in _ACTIVE and variable.value for variable in snapshot.variables)


def filter_index_lines(lines: Iterable[Requirement], services: Mapping[str, Service]) -> list[Requirement]:
    """Return the lines that an index has, without a system package list."""
    return [
        line
        for line in lines
        if look_up_line(line, {}, services).where in ("index", "rule", "conda", "address")
    ]
