"""Each kind of refusal has a class that accepts it, and no first hint begins with leaving out torch or CUDA."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.errors import LockError
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.resolve import resolver
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.snapshot.model import Snapshot
from tests.conftest import ROOT
from tests.resolve.small import around
from tests.system.samples import package

REFUSED = ("unresolved", "replaced")
LEAVING_OUT = re.compile(r"(?i)to go on without|with --accept|.*--drop|leave")


def documented() -> frozenset[str]:
    """Return the classes of docs/decisions.md."""
    text = (ROOT / "docs" / "decisions.md").read_text().partition("Classes that `accept` may name:")[2]
    rows = re.findall(r"(?m)^\| (`[^|]+`) \|", text.partition("\n## ")[0])
    return frozenset(word for row in rows for word in re.findall(r"`([a-z-]+)`", row))


def refusals() -> Iterator[tuple[str, str]]:
    """Yield (place, class) of each refusal in the code whose outcome and class stand there as words or constants."""
    for path in sorted((ROOT / "reprobuild" / "resolve").rglob("*.py")):
        tree = ast.parse(path.read_text())
        names = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                values = [*node.args, *(keyword.value for keyword in node.keywords)]
                words = [_word(value, names) for value in values]
                kind = next((_word(k.value, names) for k in node.keywords if k.arg == "kind"), "")
                if _called(node) in (
                    "make_resolution",
                    "Resolution",
                    "_make_resolution",
                    "_rule_loss",
                ) and set(words) & {*REFUSED}:
                    yield (
                        f"{path.name}:{node.lineno}",
                        kind or (words[-1] if words[-1] not in REFUSED else ""),
                    )


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def _word(value: ast.expr, names: dict[str, ast.expr]) -> str:
    if isinstance(value, ast.Name) and isinstance(names.get(value.id), ast.Constant):
        value = names[value.id]
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


CLASSES = sorted(documented())


def test_every_refusal_in_the_code_has_a_documented_class() -> None:
    found = [(place, kind) for place, kind in refusals() if kind]
    assert len(found) > 25
    assert [(place, kind) for place, kind in found if kind not in documented()] == []


def test_every_documented_class_is_in_the_code() -> None:
    code = "".join(path.read_text() for path in (ROOT / "reprobuild").rglob("*.py"))
    code += "".join(path.read_text() for path in (ROOT / "reprobuild").rglob("*.toml"))
    # A class for each kind of line, made of the two.
    made = {f"{kind}-line" for kind in ("archive", "conda", "directory", "index")}
    assert [kind for kind in CLASSES if f'"{kind}"' not in code and kind not in made] == []


def refused(kind: str, outcome: Outcome, file: str, subject: str) -> Resolution:
    return Resolution(file=file, line=3, subject=subject, outcome=outcome, reason="because", kind=kind)


@pytest.mark.parametrize("outcome", REFUSED)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_refusal_is_accepted_by_its_class(kind: str, outcome: Outcome) -> None:
    ruling = refused(kind, outcome, "requirements.txt", "tool")
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling], [])
    named = "tool" if outcome == "unresolved" else kind  # a lost package is accepted by its name
    assert f"--accept {named}" in caught.value.hint
    assert accept_deviations([ruling], [kind])[0].accepted


@pytest.mark.parametrize(
    ("file", "subject"),
    [
        ("requirements.txt", "torch"), ("conda-list.txt", "pytorch"), ("requirements.txt", "tensorflow"),
        ("apt-packages.txt", "cuda-toolkit-12-4"), ("apt-packages.txt", "libcudnn9-cuda-12"),
        ("requirements.txt", "nvidia-cublas-cu12"), ("conda-list.txt", "cudatoolkit"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", CLASSES)
def test_no_first_hint_begins_with_leaving_out_torch_or_cuda(
    kind: str, file: str, subject: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole hint of a lock, which begins with the image or the place that has it."""
    ruling = refused(kind, "unresolved", file, subject)
    monkeypatch.setattr(resolver, "_resolve", lambda *_: accept_deviations([ruling], ()))
    held = Snapshot(digest="", packages=(package(subject, "1", line=3),) if "apt" in file else ())
    with pytest.raises(LockError) as caught:
        resolve_snapshot(held, Decisions(), around(tmp_path))
    first = caught.value.hint.splitlines()[0]
    assert not LEAVING_OUT.match(first), first


def test_a_package_with_the_name_of_a_class_is_accepted_by_its_place() -> None:
    """Its name would accept each line of that class."""
    ruling = refused("unknown-version", "unresolved", "requirements.txt", "no-wheel")
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling], [])
    assert "these: --accept requirements.txt:3\n" in caught.value.hint
    assert accept_deviations([ruling], ["requirements.txt:3"])[0].accepted
