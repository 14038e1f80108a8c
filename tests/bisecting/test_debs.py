"""Packages of Debian that require each other, in real containers."""

from __future__ import annotations

import msgspec
import pytest

from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.lock.system import Base
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.store.store import Store
from tests.bisecting.small import Bench, guilty_names
from tests.system.samples import bring


@pytest.mark.long  # each set of packages is installed by dpkg
def test_a_package_is_found_with_those_that_it_requires(
    bench: Bench, bookworm: SystemIndex, base: Base, store: Store
) -> None:
    second, _ = resolve_base((), index=bookworm, roots=["python3.11", "passwd", "jq"])
    bring((*second.packages, *second.tools), store)
    locks = [msgspec.structs.replace(bench.first, base=side) for side in (base, second)]
    result = bench.bisect("sys.exit(os.path.exists('/usr/bin/jq'))", first=locks[0], second=locks[1])
    assert guilty_names(result) == {"jq", "libonig5"}  # jq and libjq1 are of one source release
    assert [result.differences[number].name for number, _ in result.required] == ["libonig5"]
    assert result.is_proved
    assert [trial.answer for trial in result.trials if trial.answer == "untestable"] == []
