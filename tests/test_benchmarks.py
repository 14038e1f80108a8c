"""The benchmarks work on tiny input; what they measure is judged where they are run, never here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from benchmarks import (
    bisecting,
    capturing,
    change,
    difference,
    dockerfiles,
    locking,
    made_index,
    measure,
    memory,
    merging,
    native_build,
    peers,
    rendering,
    resolving,
    run,
    sif,
    smoke,
    startup,
)
from benchmarks.measure import Figure, NotRunError, Sample
from benchmarks.native import LOCK, Native, forget_layers, layer_count
from proof import factors
from proof.evidence import machine, module_hash
from reprobuild.bisect.atoms import find_atoms
from reprobuild.image.engine_name import encode_named_index, own_name
from reprobuild.image.oci.read import layout_digest
from reprobuild.infra.tar.reading import read_tar
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.recipe.payload import pack_runtime
from reprobuild.recipe.render import render_recipe
from reprobuild.store.store import Store
from tests.image.layouts import image_of, write_image
from tests.image.made import BASE, Made, file

LOG = """\
#0 building with "default" instance using docker driver

#1 [internal] load build definition from Dockerfile
#1 transferring dockerfile: 400B done
#1 DONE 0.1s

#5 [2/4] RUN apt-get update && apt-get install -y python3-pip
#5 0.412 Get:1 InRelease
#5 DONE 12.5s

#7 exporting to oci image format
#7 exporting layers
#7 exporting layers 60.2s done
#7 DONE 61.0s
"""


def figure(value: float | None, limit: float | None = None) -> Figure:
    return Figure("a figure", value, "x", "another", limit)


@pytest.mark.parametrize(
    ("made", "verdict", "code"),
    [
        (figure(1.9, 2.0), "met", 0),
        (figure(2.1, 2.0), "missed", 1),
        (figure(7.0), "reported", 0),
        (figure(None, 2.0), "not run", 9),
    ],
)
def test_a_figure_is_judged_by_its_limit(made: Figure, verdict: str, code: int) -> None:
    assert made.verdict == verdict
    assert run.exit_code([figure(1.0, 2.0), made]) == code
    assert verdict in run.table([made])


def test_a_missed_limit_counts_more_than_one_that_was_not_run() -> None:
    assert run.exit_code([figure(None), figure(3.0, 2.0)]) == 1


def test_the_two_sides_take_turns_and_the_first_run_of_each_does_not_count() -> None:
    calls: list[str] = []

    def side(name: str) -> Sample:
        calls.append(name)
        return Sample(wall=float(len(calls)), cpu=1.0)

    ours, theirs = measure.alternate(lambda: side("a"), lambda: side("b"), 2)
    assert calls == ["a", "b", "a", "b", "b", "a"]
    assert [sample.wall for sample in ours] == [3.0, 6.0]
    assert [sample.wall for sample in theirs] == [4.0, 5.0]


def test_a_ratio_is_of_the_medians() -> None:
    ours, theirs = (
        [Sample(wall, 2.0) for wall in (4.0, 6.0, 99.0)],
        [Sample(wall, 1.0) for wall in (2.0, 3.0, 4.0)],
    )
    found = measure.compare("us", ours, theirs, "them", limit=2.0)
    assert (found.value, found.verdict) == (2.0, "met")
    assert found.details["ratio of minima"] == 2.0
    assert found.details["ratio of processor time"] == 2.0


def test_a_program_that_fails_has_no_time() -> None:
    with pytest.raises(RuntimeError, match="wrong thing"):
        measure.time_process([sys.executable, "-c", "print('wrong thing'); raise SystemExit(3)"])


def test_help_is_measured() -> None:
    found, hook = startup.measure(pairs=1)
    assert found.value
    assert found.limit == startup.LIMIT
    assert hook.value
    assert hook.limit == startup.HOOK_LIMIT


def test_the_made_lock_renders() -> None:
    texts = render_recipe(rendering.make_lock(5, 3))
    assert "3 packages" in texts["Dockerfile"]
    assert "package-004" in texts["requirements.txt"]
    assert rendering.make_lock(5, 3) == rendering.make_lock(5, 3)


def test_rendering_is_measured() -> None:
    figures = rendering.measure(wheels=3, processes=1, pairs=1)
    assert [found.unit for found in figures] == ["s", "x", "x", "x"]
    assert all(found.value for found in figures)
    assert [found.limit for found in figures] == [rendering.LIMIT_SECONDS, None, None, None]


def test_merging_names_the_nodes_that_answer_otherwise() -> None:
    ratio, memory_figure = merging.measure(nodes=12, distinct=4, pairs=1)
    assert (ratio.unit, ratio.limit) == ("x", merging.LIMIT)
    assert memory_figure.details["named"] == 3
    assert (memory_figure.unit, memory_figure.verdict) == ("MiB", "met")


def test_the_memory_of_diff_is_measured() -> None:
    (found,) = difference.measure(size=3_000_000, small_files=20)
    assert (found.unit, found.limit, found.verdict) == ("MiB", difference.LIMIT_MIB, "met")
    assert found.details["largest file"] == 1_500_000


@pytest.fixture
def native(tmp_path: Path) -> Native:
    """Our side, for a lock of one wheel."""
    made = Made(tmp_path / "made")
    made.wheel("one", {"one/__init__.py": b"ONE = 1\n"})
    lock = made.lock()
    sealed = msgspec.structs.replace(lock.realised, runtime=pack_runtime(made.store))
    results = tmp_path / "results"
    results.mkdir()
    write_lock(msgspec.structs.replace(lock, realised=sealed), results / LOCK)
    return Native(made.store.root, results, tmp_path / "scratch")


def test_layers_are_made_or_reused_as_asked_and_the_image_is_one(native: Native, tmp_path: Path) -> None:
    given = sorted((tmp_path / "made" / "store" / "blobs").rglob("*"))
    assert native.build(cached=False).wall > 0
    made = layer_count(native.store)
    assert made >= 3
    assert native.build(cached=True).wall > 0
    assert native.build(cached=False).wall > 0
    assert layer_count(native.store) == made
    assert native.size() > 0
    assert sorted((tmp_path / "made" / "store" / "blobs").rglob("*")) == given


def test_a_build_that_is_not_what_was_asked_for_is_no_measurement(native: Native) -> None:
    with pytest.raises(RuntimeError, match="layers were made, with cached=True"):
        native.build(cached=True)
    native.manifest = "sha256:other"
    with pytest.raises(RuntimeError, match="another image"):
        native.build(cached=False)


def test_layers_are_forgotten_with_their_blobs(native: Native) -> None:
    native.build(cached=False)
    before = len(list((native.store / "blobs").rglob("*")))
    forgotten = forget_layers(native.store)
    assert forgotten >= 3
    assert layer_count(native.store) == 0
    assert len(list((native.store / "blobs").rglob("*"))) < before


def test_the_steps_of_a_docker_build_are_read() -> None:
    steps = dockerfiles.read_steps(LOG)
    assert steps["exporting to oci image format"] == 61.0
    assert dockerfiles.Build(80.0, steps, 1).apt == 12.5


def test_changes_are_measured(tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    for name in ("one", "two", "three", "four"):
        made.wheel(name, {f"{name}.py": name.encode()})
    lock = made.lock()
    with pytest.raises(NotRunError, match="no source that could change"):
        change.changed_source(lock, made.store, 1)
    made.source("data", [file("data.txt", b"")])
    with pytest.raises(NotRunError, match="data has no Python file"):
        change.changed_source(made.lock(), made.store, 1)
    made.sources = []
    made.source("proj", [file("setup.py", b""), file("proj.py", b"A = 1\n")], editable=False)
    one, two = (change.changed_source(made.lock(), made.store, number) for number in (1, 2))
    assert one.sources[0].file.sha256 != two.sources[0].file.sha256
    assert type(one) is Lock
    tar = made.store.blob(one.sources[0].file.sha256)
    with tar.open("rb") as stream:
        assert {entry.path: content() for entry, content in read_tar(stream)} == {
            "setup.py": b"", "proj.py": b"A = 1\n# change 1\n",
        }  # fmt: skip
    assert [wheel.name for wheel in change.without_small(made.lock()).wheels] == [
        max(made.lock().wheels, key=lambda wheel: wheel.file.size).name
    ]
    with pytest.raises(NotRunError, match="make demo"):
        change.measure(tmp_path, tmp_path, tmp_path, 1)


class FakeBuilder:
    """Builds with known times, layers and bytes: each changed line brings one layer of 5 bytes."""

    def __init__(self, store: Store) -> None:
        self.store, self.built = store, []

    def build(self, lock: Lock, name: str) -> tuple[Sample, set[str], int]:
        self.built.append(name)
        return Sample(float(len(self.built)), 1.0), {"torch", name}, 1000

    def blobs(self) -> dict[str, int]:
        return dict.fromkeys(self.built, 5)


def test_the_figures_of_changes(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.source("proj", [file("proj.py", b"A = 1\n")])
    seconds, layers, added = change._figures(FakeBuilder(made.store), made.lock(), 3)
    assert (seconds.value, seconds.limit, seconds.unit) == (4.0, change.LIMIT_SECONDS, "s")
    assert (layers.value, layers.limit) == (1.0, 1.0)
    assert (added.value, added.limit) == (0.005, change.LIMIT_BYTES)


def test_the_sides_of_a_bisection(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.source("proj", [file("proj.py", b"A = 1\n")])
    atoms = find_atoms(*bisecting.make_sides(made.lock(), made.store)).atoms
    assert len(atoms) == bisecting.VARIABLES + 1
    assert {atom.kind for atom in atoms} == {"variable", "source"}
    with pytest.raises(NotRunError, match="make demo"):
        bisecting.measure(tmp_path, tmp_path, tmp_path, 1)


class FakeNative:
    """Our side with known times: 10 s and 12 s where layers are made, 1 s where they are cached."""

    def __init__(self) -> None:
        self.calls: list[bool] = []

    def build(self, *, cached: bool) -> Sample:
        self.calls.append(cached)
        return Sample(1.0 if cached else 10.0 + 2 * (len(self.calls) % 2), 1.0)

    def size(self) -> int:
        return 100


class FakeDocker:
    """The other side with known times: 100 s naive, of which apt 12.5 s, and 22 s careful."""

    def build(self, dockerfile: str, *options: str) -> dockerfiles.Build:
        return dockerfiles.Build(
            100.0 if dockerfile == dockerfiles.NAIVE else 22.0, dockerfiles.read_steps(LOG), 1
        )


def test_the_build_figures_are_ratios_of_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_build, "output_of", lambda argv: "1\n")
    native = FakeNative()
    figures = native_build._figures(native, FakeDocker(), 2)
    made, cached, without_apt, careful = (found.value for found in figures)
    assert native.calls == [False, False, False, True, False, False, True]
    assert (made, cached, careful) == (0.11, 0.01, 0.5)
    assert without_apt == pytest.approx(11 / 87.5)
    assert [found.limit for found in figures] == [native_build.LIMIT, native_build.LIMIT, None, None]
    assert figures[0].details["ratio of minima"] == 0.1


def test_the_configuration_of_apt_brings_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etc = tmp_path / "etc"
    (etc / "parts").mkdir(parents=True)
    (etc / "trusted").mkdir()
    (etc / "trusted" / "key.asc").write_text("key")
    (etc / "ring.gpg").write_text("ring")
    (etc / "parts" / "debian.sources").write_text(
        f"URIs: https://deb.example/debian\nSigned-By: {etc}/ring.gpg\n"
    )
    (etc / "parts" / "other.list.disabled").write_text("deb https://deb.example x main\n")
    answers = {
        "shell": f"list='{etc}/sources.list'\nparts='{etc}/parts/'\ntrusted='{etc}/trusted/'\n",
        "dump": 'APT::Update::Post-Invoke:: "false";\nAcquire::Retries "3";\n',
    }
    monkeypatch.setattr(dockerfiles, "output_of", lambda argv: answers[argv[1]])
    apt = tmp_path / "apt"
    dockerfiles.write_apt(apt)
    text = (apt / "parts" / "debian.sources").read_text()
    assert text == "URIs: https://deb.example/debian\nSigned-By: /mnt/apt/files/ring.gpg\n"
    assert [path.name for path in (apt / "parts").iterdir()] == ["debian.sources"]
    assert (apt / "files" / "ring.gpg").read_text() == "ring"
    assert (apt / "trusted" / "key.asc").is_file()
    conf = (apt / "apt.conf").read_text()
    assert 'Acquire::Retries "3";' in conf
    assert "Post-Invoke" not in conf


@pytest.mark.parametrize("dockerfile", [dockerfiles.NAIVE, dockerfiles.CAREFUL])
def test_the_dockerfiles_name_the_base_and_no_address(dockerfile: str) -> None:
    text = dockerfile.format(base="some:base")
    assert text.startswith("FROM some:base\n")
    assert not re.search(r"\w+://", text)


def test_without_a_filled_store_the_build_is_not_run_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="make demo"):
        native_build.measure(tmp_path, tmp_path, tmp_path)
    (found,) = run.attempt("native_build", lambda: native_build.measure(tmp_path, tmp_path, tmp_path))
    assert found.verdict == "not run"


# An Apptainer that copies what it shall build; `--version` and `build` are all that is asked of it.
APPTAINER = """#!/bin/sh
[ "$1" = --version ] && exit
while [ $# -gt 2 ]; do shift; done
cat "${2#oci:}/index.json" > "$1"
"""


def test_the_sif_is_measured(
    tmp_path: Path, squashfs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a tiny image, against a program that takes no time."""
    results = tmp_path / "results"
    layout = write_image(results / "image", [BASE])
    lock = Made(tmp_path / "made").lock()
    name = own_name(lock.digest)
    (layout.folder / "index.json").write_bytes(encode_named_index(layout, name))
    image = msgspec.structs.replace(
        image_of(layout), lock=lock.digest, reference=name, tree=layout_digest(layout)
    )
    (results / "image.json").write_bytes(msgspec.json.encode(image))
    write_lock(lock, results / LOCK)
    (results / "Apptainer.def").write_text("Bootstrap: scratch\n")
    program = tmp_path / "apptainer"
    program.write_text(APPTAINER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", squashfs["PATH"])
    figures = sif.measure(results, tmp_path / "bench", str(program), rounds=1)
    assert [(found.unit, found.limit) for found in figures] == [("x", 0.15), ("x", None), ("MiB", 512.0)]
    assert all(found.value for found in figures)
    assert set(figures[0].details["bytes"]) == {"ours", "theirs", "theirs " + " ".join(sif.ZSTD)}
    assert figures[2].verdict == "met"
    assert list((tmp_path / "bench").iterdir()) == []


def test_the_sif_is_not_run_where_something_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotRunError, match="--apptainer PROGRAM"):
        sif.measure(tmp_path, tmp_path, None)
    with pytest.raises(NotRunError, match="make demo"):
        sif.measure(tmp_path, tmp_path, "apptainer")
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "index.json").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotRunError, match="`apptainer --version` does not answer"):
        sif.measure(tmp_path, tmp_path, "apptainer")


def test_the_memory_of_a_build_is_measured(tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    lock = made.lock()
    realised = msgspec.structs.replace(lock.realised, runtime=pack_runtime(made.store))
    results = tmp_path / "results"
    results.mkdir()
    with pytest.raises(NotRunError, match="no sealed lock"):
        memory.measure(made.store.root, results, tmp_path)
    write_lock(msgspec.structs.replace(lock, realised=realised), results / LOCK)
    figures = memory.measure(made.store.root, results, tmp_path / "bench", sizes=(1_000, 3_000_000))
    assert [(found.unit, found.limit, found.verdict) for found in figures] == [("MiB", 512, "met")] * 2
    assert all(found.value and found.value > 5 for found in figures)


def test_locking_is_measured_on_few_distributions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = locking.measure(count=6, pairs=1, latency=0)
    assert [figure.unit for figure in figures] == ["s", "x", "s", "x", "x"]
    assert [figure.limit for figure in figures] == [locking.LIMIT, locking.LIMIT_TO_UV, None, None, None]
    assert all(figure.value for figure in figures)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(NotRunError, match="uv is not installed"):
        locking.commands("http://127.0.0.1:1/simple", tmp_path, 1)


def test_the_made_index_has_what_is_locked() -> None:
    pages = made_index.pages()
    assert len(pages) == len(set(made_index.LINES)) == 300
    assert made_index.pages() == pages
    sizes = sorted(len(page) for page in pages.values())
    assert sizes[0] > 1000 < sizes[-1] // 100  # some projects have a hundred times as many files as others


@pytest.mark.long
def test_resolving_is_measured_on_few_packages(tmp_path: Path) -> None:
    seconds, ratio = resolving.measure(asked=["adduser"], count=40, pairs=1)
    assert (seconds.unit, seconds.limit) == ("s", resolving.LIMIT)
    assert (ratio.unit, ratio.limit) == ("x", None)
    (tmp_path / "apt" / "lists" / "partial").mkdir(parents=True)  # what an update leaves that failed
    with pytest.raises(NotRunError, match="packages come together here"):
        resolving.prepare(tmp_path, ["adduser"], count=100_000)
    assert list((tmp_path / "apt" / "lists").glob("*_Packages*"))
    with pytest.raises(NotRunError, match="apt of this machine cannot tell: "):
        resolving.prepare(tmp_path, ["no-such-package-at-all"])


def test_capture_is_measured_against_the_recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (found,) = capturing.measure(distributions=4, repositories=2, files=3, pairs=1)
    assert (found.unit, found.limit) == ("x", capturing.LIMIT)
    assert found.value
    for name, text in (("capture.json", "{}"), ("requirements.txt", "dist0==1.0\n")):
        (tmp_path / name).write_text(text)
    with pytest.raises(RuntimeError, match="lacks 3 distributions"):
        capturing._check(tmp_path, tmp_path, 4, 2)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotRunError, match="no apt"):
        capturing.measure()


def test_a_program_that_ends_otherwise_has_no_peak() -> None:
    assert measure.peak_of([sys.executable, "-c", "print(1)"])[2] == b"1\n"
    with pytest.raises(RuntimeError, match="exited 3, not 0"):
        measure.peak_of([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(RuntimeError, match="exited 0, not 1"):
        measure.peak_of([sys.executable, "-c", ""], 1)


@pytest.mark.long
def test_each_peer_writes_a_dockerfile_of_the_same_packages(tmp_path: Path) -> None:
    programs = peers.install(tmp_path / "peers")
    for name, argv in peers.commands(rendering.make_lock(3, 2), programs, tmp_path).items():
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said = done.stdout + done.stderr  # repo2docker's comes with its log
        assert "FROM " in said, name
        assert "package-002==1.2.0" in said or "requirements.txt" in said
    (found, *_) = peers.measure(tmp_path, wheels=3, debs=2, pairs=1)
    assert (found.unit, found.limit) == ("x", None)
    assert found.value


def test_peers_that_cannot_be_had_are_said(tmp_path: Path) -> None:
    (tmp_path / "peers").write_text("in the way")
    with pytest.raises(NotRunError, match="`python -m venv` failed"):
        peers.install(tmp_path / "peers")


def test_evidence_is_dated_and_names_the_code_it_covers(tmp_path: Path) -> None:
    found = Figure(
        "a figure", 1.23456, "x", "another", 2.0, ("reprobuild/lock", "reprobuild/cli"), {"pairs": 1}
    )
    state = machine()
    document = json.loads(run.evidence([found], state, state))
    age = datetime.now(timezone.utc) - datetime.fromisoformat(document["date"].replace("Z", "+00:00"))
    assert timedelta() <= age < timedelta(minutes=5)
    assert set(document["modules"]) == {"reprobuild/cli", "reprobuild/lock"}
    assert document["modules"]["reprobuild/cli"] != document["modules"]["reprobuild/lock"]
    assert document["machine"]["cpu"]
    assert set(document["machine"]["load average"]) == {"before", "after"}
    (one,) = document["figures"]
    assert (one["value"], one["verdict"]) == (1.2346, "met")


def test_every_room_that_a_figure_names_is_there() -> None:
    for module in (
        *startup.MODULES,
        *rendering.MODULES,
        *native_build.MODULES,
        *sif.MODULES,
        *factors.MODULES,
    ):
        assert module_hash(module)


def test_the_smoke_test_is_measured_with_the_results_of_a_build(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="there are no results in "):
        smoke.measure(tmp_path, tmp_path / "bench")
