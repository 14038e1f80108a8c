"""What an index of others says goes to no terminal as it stands."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from reprobuild.ecosystems.apt import relations
from debian.deb822 import PkgRelation
assert relations.PkgRelation is PkgRelation
PkgRelation.parse_relations("b (\\x1b]0;evil\\x07 3)")
"""


def test_a_relation_that_cannot_be_parsed_is_not_printed() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
