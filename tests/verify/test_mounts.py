"""Mounts of the user's own work: their digests, mounts that change between runs, and certificates of other mounts."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.engines.model import Finished, Task
from reprobuild.errors import UsageError
from reprobuild.output.directory import summary_document
from reprobuild.report.determinism import verdict_lines
from reprobuild.report.html.page import render_html
from reprobuild.verify.certificate.compare import compare_against
from reprobuild.verify.certificate.read import Certificate, read_verdict, refuse_other_work
from reprobuild.verify.verdict import Against, Verdict, WorkComparison
from reprobuild.verify.workload import mounts as module
from reprobuild.verify.workload.conditions import Conditions, Mount, make_work_record
from reprobuild.verify.workload.mounts import Mounts, content_digest
from reprobuild.verify.workload.run import compare_work
from reprobuild.verify.workload.work import work_of_options
from tests.report.samples import IMAGE
from tests.verify.samples import DRIFTED, PreparedEngine, done, good_answers, make_lock, make_verdict


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data set with each kind of path."""
    top = tmp_path / "data"
    (top / "train" / "empty").mkdir(parents=True)
    (top / "train" / "a.bin").write_bytes(b"a" * 3_000_000)
    (top / "run.sh").write_text("echo\n")
    (top / "run.sh").chmod(0o755)
    (top / "latest").symlink_to("train")
    os.mkfifo(top / "pipe")
    return top


def entry(kind: str, value: str, path: str) -> bytes:
    return f"{kind} {value} {path}".encode() + b"\0"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_digest_is_the_one_that_the_module_defines(data: Path) -> None:
    wanted = [
        entry("folder", "-", ""),
        entry("link", sha(b"train"), "latest"),
        entry("special", "-", "pipe"),
        entry("exec", sha(b"echo\n"), "run.sh"),
        entry("folder", "-", "train"),
        entry("file", sha(b"a" * 3_000_000), "train/a.bin"),
        entry("folder", "-", "train/empty"),
    ]
    assert content_digest(str(data)) == sha(b"".join(wanted))
    assert content_digest(str(data / "train" / "a.bin")) == sha(b"a" * 3_000_000)


def test_a_copy_has_the_same_digest(data: Path, tmp_path: Path) -> None:
    before = content_digest(str(data))
    (data / "pipe").unlink()
    without = content_digest(str(data))
    shutil.copytree(data, tmp_path / "copy", symlinks=True)
    for path in [tmp_path / "copy", *(tmp_path / "copy").rglob("*")]:
        os.utime(path, (1, 1), follow_symlinks=False)
    assert content_digest(str(tmp_path / "copy")) == without != before


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "train" / "a.bin").write_bytes(b"a" * 2_999_999 + b"b"),
        lambda top: (top / "train" / "a.bin").rename(top / "train" / "b.bin"),
        lambda top: (top / "run.sh").chmod(0o644),
        lambda top: ((top / "latest").unlink(), (top / "latest").symlink_to("run.sh")),
        lambda top: (top / "train" / "empty").rmdir(),
        lambda top: (top / "train" / "empty" / "x").touch(),
        lambda top: (top / "pipe").unlink(),
    ],
    ids=["content", "name", "executable", "link", "folder", "empty file", "pipe"],
)
def test_what_changes_the_digest(data: Path, change: Any) -> None:
    before = content_digest(str(data))
    change(data)
    assert content_digest(str(data)) != before


def test_the_record_names_no_place_of_this_machine(data: Path) -> None:
    (found,) = Mounts(((str(data), "/data"),), frozenset({"/data"})).records
    assert found == Mount(
        place="/data", digest=f"sha256:{content_digest(str(data))}", paths=7, size=3_000_005, writable=False
    )
    (absent,) = Mounts(((str(data / "none"), "/data"),)).records
    assert (absent.digest, absent.why) == ("", "it cannot be read: No such file or directory")


def test_too_much_has_no_digest_and_is_not_read(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "content_digest", lambda _: pytest.fail("it was read"))
    monkeypatch.setattr(module, "LARGEST", 1 << 20)
    (large,) = Mounts(((str(data), "/data"),)).records
    assert large.why == "it has more than 0 GiB: mount the part that the command reads"
    monkeypatch.setattr(module, "MOST", 3)
    (many,) = Mounts(((str(data), "/data"),)).records
    assert many.why == "it has more than 3 paths: mount the part that the command reads"


def test_a_file_that_never_ends_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Files of /proc say that they have no bytes, and have some."""
    (found,) = Mounts((("/proc/self/status", "/status"),)).records
    assert found.why == "it changed while it was read"


def test_only_another_content_is_a_change(data: Path) -> None:
    held = Mounts(((str(data), "/data"), (str(data / "run.sh"), "/run.sh")), frozenset({"/data"}))
    assert held.changed() == []
    os.utime(data / "run.sh", (1, 1))
    assert held.changed() == []
    (data / "run.sh").write_text("echo 2\n")
    assert held.changed() == ["the mount /data changed", "the mount /run.sh changed"]
    assert held.changed(writable=False) == ["the mount /data changed"]


class Working(PreparedEngine):
    """An engine whose runs change a file of a mount."""

    def __init__(self, file: Path, contents: list[bytes]) -> None:
        drifted = done({"ran": True, "files": [DRIFTED]})
        outputs = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]
        super().__init__({**good_answers(), "compare": [drifted], "workload": outputs})
        self._file, self._contents = file, contents

    def run(self, reference: str, task: Task, env: Mapping[str, str]) -> Finished:
        if task.kept and self._contents:
            self._file.write_bytes(self._contents.pop(0))
        return super().run(reference, task, env)


def judged(data: Path, contents: list[bytes], *, writable: bool) -> WorkComparison:
    given = Conditions(volumes=((str(data), "/data"),), read_only=frozenset(() if writable else {"/data"}))
    made = work_of_options("train", ("{out}/model.pt",), (), (), given)
    assert made
    (found,) = compare_work(made, 7, "image:1", Working(data / "run.sh", contents), {}).comparisons
    return found


CHANGED = "the mount /data changed between the runs, which may be why they differ: "


@pytest.mark.parametrize(
    ("contents", "writable", "verdict"),
    [
        ([], False, "drift"),
        ([b"other\n"], False, "inconclusive"),  # the first run read one thing, the second another
        ([b"other\n"], True, "inconclusive"),
        ([b"echo\n", b"other\n"], False, "inconclusive"),  # somebody else wrote during the second run
        ([b"echo\n", b"other\n"], True, "drift"),  # its own writing is no input of the second run
        ([b"echo\n", b"echo\n"], False, "drift"),
    ],
)
def test_runs_that_read_other_files_show_no_drift(
    data: Path, contents: list[bytes], writable: bool, verdict: str
) -> None:
    found = judged(data, contents, writable=writable)
    assert found.verdict == verdict
    assert found.detail.startswith(CHANGED) == (verdict == "inconclusive")
    assert found.warnings == (("the mount /data changed",) if verdict == "inconclusive" else ())


def of_mount(content: str | None, work_digest: str = "1" * 64, **more: Any) -> Verdict:
    """Return a verdict of work that mounts one file; None for a certificate that has no digest of it."""
    given = Conditions(volumes=(("/somewhere", "/data"),))
    held = () if content is None else (Mount(place="/data", digest=content and f"sha256:{content}", **more),)
    return make_verdict(
        work=make_work_record("train", 42, given, mounts=held),
        comparisons=(WorkComparison(name="artefact a", verdict="identical", detail=work_digest),),
    )


def compared(now: Verdict, then: Verdict) -> Against:
    return compare_against(now, Certificate(path=Path("verdict.json"), sha256="c" * 64, verdict=then))


ONE, TWO = "a" * 64, "b" * 64
OTHER_WORK = "2" * 64


def test_the_same_mount_is_compared() -> None:
    assert compared(of_mount(ONE), of_mount(ONE)).verdict == "same"
    found = compared(of_mount(ONE, OTHER_WORK), of_mount(ONE))
    assert (found.verdict, len(found.failed), found.mounts) == ("differ", 1, ())


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (of_mount(TWO), of_mount(ONE, OTHER_WORK), f"mount: /data: {'b' * 12} -> {'a' * 12}"),
        (of_mount(None), of_mount(ONE, OTHER_WORK), f"mount: /data: nothing -> {'a' * 12}"),
        (of_mount("", why="it is large"), of_mount("", OTHER_WORK, why="it is large"),
         "mount: /data: no digest: it is large -> no digest: it is large"),
    ],
    ids=["another", "of before", "too large"],
)  # fmt: skip
def test_another_mount_is_inconclusive_and_said(then: Verdict, now: Verdict, said: str) -> None:
    found = compared(now, then)
    assert (found.verdict, found.failed) == ("inconclusive", ())
    lines = verdict_lines(msgspec.structs.replace(now, against=found))
    assert f"  other mounts, so your work is not compared: {said}" in lines
    assert f"  computed with other mounts: your work: artefact a: {'1' * 12} -> {'2' * 12}" in lines
    assert "/data" in render_html(make_lock(), IMAGE, msgspec.structs.replace(now, against=found))


def test_equal_work_with_another_mount_is_no_proof() -> None:
    assert compared(of_mount(ONE), of_mount(TWO)).verdict == "inconclusive"


def test_mounts_are_told_with_the_work() -> None:
    lines = verdict_lines(of_mount(ONE, paths=1200, size=5_000_000_000))
    assert f"  mount /data: {'a' * 12} (1,200 paths, 5.0 GB)" in lines
    lines = verdict_lines(of_mount("", why="it has more than 64 GiB"))
    assert "  mount /data: no digest, so --against cannot compare your work: it has more than 64 GiB" in lines
    assert "What it mounted" in render_html(make_lock(), IMAGE, of_mount(ONE))


def test_the_document_has_comparisons_and_mounts() -> None:
    """An artefact that was never written and an identical one are told apart, and so are other inputs."""
    verdict = of_mount(ONE, paths=1, size=2)
    document = summary_document(make_lock(), IMAGE, verdict, Path("out"))["verdict"]["work"]
    assert document["artefacts"] == [
        {"name": "artefact a", "verdict": "identical", "detail": "1" * 64, "excused": {}}
    ]
    assert document["mounts"] == [
        {"place": "/data", "digest": f"sha256:{ONE}", "paths": 1, "size": 2, "writable": False, "why": ""}
    ]


def test_a_certificate_of_before_is_read() -> None:
    raw = msgspec.to_builtins(of_mount(ONE))
    del raw["work"]["mounts"], raw["work"]["workdir"]
    found = read_verdict(msgspec.json.encode(raw), "x")
    assert found.work
    assert (found.work.volumes, found.work.mounts) == (("/data",), ())


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (make_work_record("train", 42, Conditions(), workdir="/b"), "another working directory: /a, and this is /b"),
        (make_work_record("train", 42, Conditions(variables={"STEPS": "40"}), workdir="/a"),
         "another environment: STEPS=20, and this is STEPS=40"),
        (make_work_record("train", 42, Conditions(variables={"TOKEN": "x"}, hidden=frozenset({"TOKEN"})), workdir="/a"),
         r"another environment: STEPS=20 no TOKEN, and this is no STEPS TOKEN=\(secret\)"),
    ],
    ids=["directory", "variable", "secret"],
)  # fmt: skip
def test_work_of_other_conditions_is_refused(other: Any, words: str) -> None:
    then = make_work_record("train", 42, Conditions(variables={"STEPS": "20"}), workdir="/a")
    held = Certificate(path=Path("v.json"), sha256="c" * 64, verdict=make_verdict(work=then))
    refuse_other_work(held, then)
    with pytest.raises(UsageError, match=words):
        refuse_other_work(held, other)


def test_the_output_directory_is_no_part_of_a_mount(tmp_path: Path) -> None:
    """The documented mount of a project holds it, and each check writes there."""
    data, out = tmp_path / "job", tmp_path / "job" / "frozen"
    out.mkdir(parents=True)
    (data / "train.py").write_text("x = 1\n")
    (out / "verdict.json").write_text("{}")
    volumes = ((str(data), "/job"),)
    (before,) = Mounts(volumes, out=out).records
    checked = Mounts(volumes, out=out)
    (out / "verdict.json").write_text("another")
    assert (before.paths, before.size) == (2, 6)
    assert checked.changed() == []
    assert Mounts(volumes, out=out).records == (before,)
    (data / "train.py").write_text("x = 2\n")
    assert checked.changed() == ["the mount /job changed"]
    assert Mounts(volumes).records[0].paths == 4
