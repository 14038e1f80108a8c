"""Time and memory to merge the certificates of 10 000 nodes.

A hundred certificates are made that are as large as real ones, one of which answers otherwise, and linked until there
are as many as nodes: each is read, decoded, checked and compared. The other side is a process that only reads and
decodes the same files with msgspec, into the same form. The merge has to name exactly the nodes with the other answer.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import msgspec

from benchmarks.measure import Figure, alternate, compare, peak_of, time_process
from tests.cluster.samples import certificate, changed

NODES = 10_000
DISTINCT = 100
PAIRS = 2
LIMIT, LIMIT_MIB = 3.0, 256
MODULES = ("reprobuild/cluster", "reprobuild/verify")

_MERGE = """
import json, sys
from pathlib import Path
from reprobuild.cluster.answer_table import AnswerTable
from reprobuild.cluster.aggregate import ExpectedImage, list_deviating_nodes, gather_results
from tests.verify.samples import EXPECTED, SHA
image = ExpectedImage(tree=f"sha256:{SHA}", seed=42, profile="torch")
cluster = gather_results(Path(sys.argv[1]), image, AnswerTable(EXPECTED))
print(json.dumps(sorted(node for node, _, _ in list_deviating_nodes(cluster))))
"""
_DECODE = """
import sys
from pathlib import Path
import msgspec
from reprobuild.verify.verdict import Verdict
for path in sorted(Path(sys.argv[1]).iterdir()):
    msgspec.json.decode(path.read_bytes(), type=Verdict)
"""


def make_cluster(folder: Path, nodes: int, distinct: int) -> list[str]:
    """Write the certificates of so many nodes.

    Returns the names of those that answer otherwise.
    """
    right, wrong = (msgspec.json.encode(certificate(smoke)) for smoke in (None, changed("index_add")))
    names = [f"node{number:05}" for number in range(nodes)]
    odd = names[3::distinct]
    for number in range(min(distinct, nodes)):
        first = folder / f"{names[number]}.json"
        first.write_bytes(wrong if number == 3 else right)
        for name in names[number + distinct :: distinct]:
            (folder / f"{name}.json").hardlink_to(first)
    return odd


def measure(nodes: int = NODES, distinct: int = DISTINCT, pairs: int = PAIRS) -> list[Figure]:
    """Return the ratio and the greatest memory.

    A merge that names other nodes is an error.
    """
    with tempfile.TemporaryDirectory(prefix="reprobuild-bench-") as scratch:
        folder = Path(scratch)
        odd = make_cluster(folder, nodes, distinct)
        merge, decode = ([sys.executable, "-c", code, scratch] for code in (_MERGE, _DECODE))
        peak, seconds, output = peak_of(merge)
        if json.loads(output) != odd:
            raise RuntimeError(f"the merge named {output[:200]!r}, and {odd[:5]} answer otherwise")
        ours, theirs = alternate(lambda: time_process(merge), lambda: time_process(decode), pairs)
        size = sum(path.stat().st_size for path in folder.iterdir())
    name = f"certificates of {nodes} nodes, merged"
    details = {"bytes": size, "seconds": round(seconds, 1), "named": len(odd)}
    return [
        compare(name, ours, theirs, "decoding them with msgspec", limit=LIMIT, modules=MODULES),
        Figure(
            name, peak / 1024, "MiB", "greatest resident memory", limit=LIMIT_MIB, modules=MODULES, details=details
        ),
    ]  # fmt: skip
