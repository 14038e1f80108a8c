"""`run` with saved choices of compilers, in real containers; the command writes the files that a compiler would."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import zstandard

from reprobuild.engines.model import Task
from reprobuild.errors import UsageError
from reprobuild.output.directory import read_config_digest, read_image
from reprobuild.run.choices import ChoiceUse
from reprobuild.run.options import RunOptions
from reprobuild.store.keyring import StoreKeyring
from tests.choices.samples import forge_image, replace, save_choices
from tests.conftest import Built, another_user, reprobuild

# A graph with one measured operation, as Inductor leaves them (torch 2.13).
COMPILE = """
set -e; cd "$TORCHINDUCTOR_CACHE_DIR"; umask 77
if [ -e cache/44 ]; then echo "kept $REPROBUILD_CHOICES"; else
mkdir -p cache fxgraph/ab locks ab
echo '{"cache": {"mm": {"128x192": {"highest": {"gemm_1": 0.5, "mkl": 0.25}}}}}' >cache/44
echo code >ab/cab.so; echo graph >fxgraph/ab/x; date +%N >locks/cab.lock; echo "made $REPROBUILD_CHOICES"
fi
"""
ANOTHER = """
set -e; cd "$TORCHINDUCTOR_CACHE_DIR"; mkdir -p cd
echo '{"cache": {"mm": {"128x192": {"highest": {"gemm_1": 0.5, "mkl": 0.25, "gemm_9": 1}}}}}' >cache/44
echo other >cd/ccd.so
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def out(built_example: Built, tmp_path: Path) -> Path:
    return built_example.copy(tmp_path / "out")


@pytest.fixture(scope="module")
def env(built_example: Built, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return an environment that leads to the built-in engine, with a record of accepted choices of its own."""
    given = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    return given | another_user(tmp_path_factory.mktemp("data"), built_example.store)


@pytest.fixture
def run(out: Path, env: Mapping[str, str]) -> Run:
    def run(script: str, *options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = reprobuild("run", out, "--seed", "1", *options, "--", "sh", "-c", script, env=env)
        assert done.returncode == code, done.stderr
        return done

    return run


def saved(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "choices").iterdir())


def digest(out: Path) -> str:
    """Return the digest of the only saved choices."""
    (record,) = (name for name in saved(out) if name.endswith(".json"))
    return record.removesuffix(".json")


def archive_of(out: Path) -> Path:
    """Return the only archive."""
    (archive,) = (out / "choices").glob("*.tar.zst")
    return archive


def test_a_run_begins_with_the_saved_choices(run: Run, out: Path) -> None:
    first = run(COMPILE, "--save-choices")
    name = digest(out)
    assert first.stdout == "made none\n"
    assert f"choices {name[:12]} saved: 3 files" in first.stderr
    for options in ((), ("--choices", "strict")):
        again = run(COMPILE, *options)
        assert again.stdout == f"kept {name}\n"
        assert f"choices {name[:12]}: inductor (2 measurements, 2 compiled files)" in again.stderr
        assert f"choices {name[:12]}: no miss" in again.stderr


def test_without_saved_choices_no_variable_changes(run: Run) -> None:
    script = 'echo "${TORCHINDUCTOR_CACHE_DIR-} ${REPROBUILD_CHOICES-}"; ls -d /var/cache/reprobuild-choices || true'
    assert run(script).stdout == " \n"


def test_choices_that_are_off_are_not_mounted(run: Run) -> None:
    run(COMPILE, "--save-choices")
    assert run('echo "${REPROBUILD_CHOICES-}"', "--choices", "off").stdout == "\n"


@pytest.mark.long  # `make proof PROOF_ARGS=choices` compiles in twenty containers
def test_verify_probes_compiled_code_with_saved_choices(run: Run, out: Path, env: Mapping[str, str]) -> None:
    """The example has no compiler, so these probes and their control are not applicable there."""
    run(COMPILE, "--save-choices")
    (out / "verdict.json").unlink()
    done = reprobuild("verify", out, "--only", "probes", "--engine", "builtin", env=env)
    assert done.returncode == 0, done.stderr
    (smoke,) = json.loads((out / "verdict.json").read_bytes())["smoke"]
    assert smoke["left_out"] == []
    kernels = [control["why"] for control in smoke["controls"] if control["name"] == "measured_kernels"]
    assert kernels == ["not applicable here: there is no compiler in this environment"]


def test_a_miss_is_counted_and_named_and_the_saved_files_stay(run: Run, out: Path) -> None:
    run(COMPILE, "--save-choices")
    name = digest(out)
    content = archive_of(out).read_bytes()
    done = run(ANOTHER)
    assert (
        f"choices {name[:12]}: 1 new measurements, 1 newly compiled files; "
        "inductor/cache/44: cache mm 128x192 highest gemm_9; inductor/cd/ccd.so"
    ) in done.stderr
    assert archive_of(out).read_bytes() == content
    assert run(COMPILE, "--choices", "strict").stdout == f"kept {name}\n"


def test_a_miss_is_an_error_where_choices_are_strict(run: Run, out: Path) -> None:
    run(COMPILE, "--save-choices")
    done = run(ANOTHER, "--choices", "strict", code=125)
    assert (
        "error: --choices strict: the run was not one of its saved choices alone: 1 new measurements"
        in done.stderr
    )
    assert (
        "hint: add the new ones with --save-choices, if this is the same command on the same data"
        in done.stderr
    )
    run(ANOTHER, "--save-choices")
    assert run(ANOTHER, "--choices", "strict").stderr.endswith(f"choices {digest(out)[:12]}: no miss\n")


def test_the_code_of_the_command_comes_before_a_miss(run: Run, out: Path) -> None:
    run(COMPILE, "--save-choices")
    name = digest(out)
    run(f"{ANOTHER} exit 3", "--choices", "strict", code=3)
    done = run(f"{ANOTHER} exit 4", "--save-choices", code=4)
    assert "the choices are not saved: the command ended with 4" in done.stderr
    assert digest(out) == name


def test_two_collections_of_one_run_are_equal(run: Run, out: Path, tmp_path: Path) -> None:
    """Locks with a time are left out; times, modes and the order of files are not in the archive."""
    contents = []
    for _ in range(2):
        run(COMPILE, "--save-choices", "--choices", "off")
        contents.append({name: (out / "choices" / name).read_bytes() for name in saved(out)})
        shutil.rmtree(out / "choices")
    assert contents[0] == contents[1]


def test_strict_without_saved_choices_says_how_to_save_them(run: Run, out: Path) -> None:
    done = run(COMPILE, "--choices", "strict", code=125)
    assert f"error: --choices strict: {out} has no saved choices" in done.stderr
    assert f"hint: save those of a run: `reprobuild run {out} --save-choices -- CMD`" in done.stderr
    run(COMPILE, "--save-choices")
    run(COMPILE, "--choices", "strict")


@pytest.mark.parametrize(
    ("variable", "named"),
    [
        ("ATEN_CPU_CAPABILITY=default", "ATEN_CPU_CAPABILITY: none when they were saved, default here"),
        ("OMP_NUM_THREADS=1", "OMP_NUM_THREADS: 2 when they were saved, 1 here"),
    ],
)
def test_another_platform_is_refused_by_name(run: Run, out: Path, variable: str, named: str) -> None:
    run(COMPILE, "--save-choices")
    name = digest(out)
    done = run('echo "${TORCHINDUCTOR_CACHE_DIR-none}"', "-e", variable)
    assert done.stdout == "none\n"
    assert f"not used: choices {name[:12]} are of another platform: {named}" in done.stderr
    done = run(COMPILE, "-e", variable, "--choices", "strict", code=125)
    assert f"error: --choices strict: choices {name[:12]} are of another platform: {named}" in done.stderr
    hint = "hint: save choices on this platform with --save-choices, or run with --choices auto"
    assert hint in done.stderr
    assert run(COMPILE, "-e", variable, "--save-choices").stdout == "made none\n"
    assert len(saved(out)) == 3  # a record for each platform, of one archive
    assert run(COMPILE, "-e", variable, "--choices", "strict").stdout.startswith("kept ")
    assert run(COMPILE, "--choices", "strict").stdout == f"kept {name}\n"


def test_processors_of_the_run_are_of_the_platform(run: Run, out: Path, env: Mapping[str, str]) -> None:
    run(COMPILE, "--save-choices")
    if len(os.sched_getaffinity(0)) == 1:
        record = next((out / "choices").glob("*.json"))
        content = record.read_bytes().replace(b'"threads": 1', b'"threads": 2')
        record.unlink()
        record.with_name(f"{hashlib.sha256(content).hexdigest()}.json").write_bytes(content)
        affinity: list[str] = []
    else:
        affinity = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    done = reprobuild("run", out, "--", "true", prefix=affinity, env=env)
    assert "processors that the run may use: 2 when they were saved, 1 here" in done.stderr


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    path.write_bytes(content)


def truncate(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:-20])


@pytest.mark.parametrize("change", [damage, truncate])
def test_a_changed_archive_is_refused_by_name(run: Run, out: Path, change: Callable[[Path], None]) -> None:
    run(COMPILE, "--save-choices")
    name = digest(out)
    archive = archive_of(out)
    change(archive)
    done = run(COMPILE, code=125)
    assert f"the choices {name[:12]} ({archive})" in done.stderr
    hint = f"hint: get {archive.name} again from its maker, remove it, or run with --choices off"
    assert hint in done.stderr
    assert done.stdout == ""
    run("true", "--choices", "off")


def test_a_swapped_archive_is_refused_by_name(run: Run, out: Path, env: Mapping[str, str]) -> None:
    run(COMPILE, "--save-choices")
    run(f"{COMPILE} echo more >ab/more.so", "-e", "OMP_NUM_THREADS=1", "--save-choices")
    first, second = sorted((out / "choices").glob("*.tar.zst"))
    second.unlink()
    second.write_bytes(first.read_bytes())
    codes = [
        reprobuild("run", out, *options, "--", "true", env=env).returncode
        for options in ((), ("-e", "OMP_NUM_THREADS=1"))
    ]
    assert sorted(codes) == [0, 125]


def test_a_damaged_record_is_refused_by_name(run: Run, out: Path) -> None:
    run(COMPILE, "--save-choices")
    record = out / "choices" / f"{digest(out)}.json"
    text = record.read_text()
    record.write_text(text[:-30])
    done = run(COMPILE, code=125)
    assert f"error: {record} is damaged, or of another version of reprobuild" in done.stderr
    assert "hint: remove it and save the choices again, or run with --choices off" in done.stderr
    other = record.with_name(f"{'0' * 64}.json")
    record.rename(other)
    other.write_text(text)
    assert f"error: {other} is the record of other choices" in run(COMPILE, code=125).stderr


def test_choices_of_another_party_are_code_and_wait_for_consent(run: Run, out: Path) -> None:
    run(COMPILE, "--save-choices")
    record = out / "choices" / f"{digest(out)}.json"
    content = json.dumps(json.loads(record.read_text())).encode()  # a record that was not written here
    name = hashlib.sha256(content).hexdigest()
    record.unlink()
    record.with_name(f"{name}.json").write_bytes(content)
    done = run('echo "${TORCHINDUCTOR_CACHE_DIR-none}"')
    assert done.stdout == "none\n"
    reason = (
        f"choices {name[:12]} were not saved here, and they are code: "
        f"`reprobuild run {out} --trust-choices {name} -- CMD` accepts them"
    )
    assert reason in done.stderr
    assert reason in run(COMPILE, "--choices", "strict", code=125).stderr
    done = run(COMPILE, "--trust-choices", name[:12], code=125)
    assert f"error: --trust-choices {name[:12]}: there are no such choices" in done.stderr
    assert f"hint: those of this directory: {name}" in done.stderr
    assert run(COMPILE, "--trust-choices", name, "--choices", "strict").stdout == f"kept {name}\n"
    assert run(COMPILE, "--choices", "strict").stdout == f"kept {name}\n"  # consent is remembered


def test_choices_of_another_image_are_not_used(run: Run, out: Path) -> None:
    """Another image that brings accepted choices would get files of the first one's author, unasked."""
    run(COMPILE, "--save-choices")
    record = out / "choices" / f"{digest(out)}.json"
    saved_choices = json.loads(record.read_text())
    content = json.dumps({**saved_choices, "lock": "0" * 64}).encode()
    name = hashlib.sha256(content).hexdigest()
    record.unlink()
    record.with_name(f"{name}.json").write_bytes(content)
    done = run('echo "${TORCHINDUCTOR_CACHE_DIR-none}"', "--trust-choices", name)
    assert done.stdout == "none\n"
    assert f"not used: choices {name[:12]} are of another image, with the lock 000000000000" in done.stderr


def test_choices_of_a_forged_image_with_a_copied_lock_are_not_used(
    run: Run, out: Path, built_example: Built, tmp_path: Path, env: Mapping[str, str]
) -> None:
    """The user tried an image of another party with `--save-choices`; that party then hands over the choices."""
    forged = built_example.copy(tmp_path / "forged")
    genuine = forge_image(forged)
    done = reprobuild("run", forged, "--seed", "1", "--save-choices", "--", "sh", "-c", COMPILE, env=env)
    assert done.returncode == 0, done.stderr
    shutil.copytree(forged / "choices", out / "choices")
    name = digest(out)
    made_by = json.loads((out / f"choices/{name}.json").read_text())["image"]
    done = run('echo "${TORCHINDUCTOR_CACHE_DIR-none}"', "--trust-choices", name)
    assert done.stdout == "none\n"
    reason = f"choices {name[:12]} are of another image with the same lock, {made_by[:19]}; this one is {genuine[:19]}"
    assert f"not used: {reason}" in done.stderr
    assert f"error: --choices strict: {reason}" in run(COMPILE, "--choices", "strict", code=125).stderr
    assert run(COMPILE, "--save-choices").stdout == "made none\n"
    assert digest(out) != name  # they are replaced


def test_a_forged_image_that_states_the_genuine_one_is_not_run(
    built_example: Built, tmp_path: Path, env: Mapping[str, str]
) -> None:
    """Its manifest is the stated one, so that an engine would load it, and the record name the genuine image."""
    forged = built_example.copy(tmp_path / "forged")
    genuine = forge_image(forged)
    stated = json.loads((forged / "image.json").read_text())
    replace(forged / "image.json", json.dumps({**stated, "config": genuine}).encode())
    done = reprobuild("run", forged, "--save-choices", "--", "true", env=env)
    assert done.returncode == 125
    assert "does not hold the image that its image.json states" in done.stderr


def test_choices_of_an_image_that_only_the_engine_has(out: Path, tmp_path: Path) -> None:
    """Docker runs an image without its layers; nothing then tells which configuration it has."""
    lock, image = read_image(out)
    assert read_config_digest(out, image) == image.config
    shutil.rmtree(out / "image")
    assert read_config_digest(out, image) == ""
    save_choices(out)
    said: list[str] = []
    use = ChoiceUse(
        out=out, lock=lock, image="", known=StoreKeyring(tmp_path / "keys"), say=said.append,
        options=RunOptions(save_choices=True),
    )  # fmt: skip
    with pytest.raises(
        UsageError, match="holds no layers, so that the choices cannot name the image"
    ) as caught:
        use.open(Task(arguments=("true",)), {}, os.environ).__enter__()
    assert caught.value.hint == f"make them: `reprobuild build {out}/reprobuild.lock -o {out}`"


def test_linked_choices_are_not_read(run: Run, out: Path, tmp_path: Path) -> None:
    run(COMPILE, "--save-choices")
    (out / "choices").rename(tmp_path / "private")
    (out / "choices").symlink_to(tmp_path / "private")
    done = run(COMPILE, code=125)
    assert f"{out / 'choices'} is a link" in done.stderr
    assert done.stdout == ""


def test_no_link_and_no_pipe_of_a_container_is_followed(run: Run, out: Path, tmp_path: Path) -> None:
    run(
        f"{COMPILE} ln -s /etc/passwd ab/link.so; ln -s /proc/self/root fxgraph/root; mkfifo ab/pipe.so; "
        "ln -s ../../../../../../../../etc cache/etc",
        "--save-choices",
    )
    with (
        zstandard.open(archive_of(out), "rb") as content,
        tarfile.open(fileobj=content, mode="r|") as archive,
    ):
        names = archive.getnames()
    assert names == ["inductor/ab/cab.so", "inductor/cache/44", "inductor/fxgraph/ab/x"]


def test_a_cache_that_the_user_places_is_left_alone(run: Run, out: Path) -> None:
    done = run(
        'mkdir -p /tmp/mine/ab; echo x >/tmp/mine/ab/a.so; echo "$TORCHINDUCTOR_CACHE_DIR"',
        "-e", "TORCHINDUCTOR_CACHE_DIR=/tmp/mine", "--save-choices",
    )  # fmt: skip
    assert done.stdout == "/tmp/mine\n"
    assert (
        "TORCHINDUCTOR_CACHE_DIR is given, so the choices of inductor are neither used nor saved"
        in done.stderr
    )
    assert "no choices are saved: the command compiled and measured nothing" in done.stderr
    assert not (out / "choices").exists()


def test_a_linked_directory_of_choices_is_not_written_through(run: Run, out: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (out / "choices").symlink_to(elsewhere)
    done = run(COMPILE, "--save-choices", code=125)
    assert f"{out / 'choices'} is a link, and the choices are not written through it" in done.stderr
    assert done.stdout == ""  # said before the command, which may take hours
    assert list(elsewhere.iterdir()) == []


def test_the_first_rank_saves(out: Path, env: Mapping[str, str]) -> None:
    for rank in ("1", "0"):
        done = reprobuild(
            "run",
            out,
            "--save-choices",
            "--",
            "sh",
            "-c",
            COMPILE,
            env={**env, "RANK": rank, "WORLD_SIZE": "2"},
        )
        assert done.returncode == 0, done.stderr
        assert (out / "choices").exists() is (rank == "0")


@pytest.mark.long
def test_another_cluster_uses_the_choices_of_a_bundle_after_consent(
    run: Run, out: Path, built_example: Built, tmp_path: Path, env: Mapping[str, str]
) -> None:
    """The other side has its own store and keys, and no network."""
    run(COMPILE, "--save-choices")
    name = digest(out)
    bundled = reprobuild(
        "bundle",
        out,
        "-o",
        tmp_path / "b.tar",
        "--include",
        "choices",
        "--store",
        built_example.store,
        env=env,
    )
    assert bundled.returncode == 0, bundled.stderr
    apart = {f"XDG_{kind}_HOME": str(tmp_path / "there" / kind) for kind in ("CACHE", "DATA", "CONFIG")}
    env = {**env, **apart}
    unpacked = reprobuild("unbundle", tmp_path / "b.tar", "-o", tmp_path / "frozen", env=env)
    assert unpacked.returncode == 0, unpacked.stderr

    def there(*options: str) -> subprocess.CompletedProcess[str]:
        return reprobuild(
            "run", tmp_path / "frozen", "--engine", "builtin", "--seed", "1", *options, "--", "sh", "-c", COMPILE,
            env=env,
        )  # fmt: skip

    done = there("--choices", "strict")
    hint = f"`reprobuild run {tmp_path / 'frozen'} --trust-choices {name} -- CMD` accepts them"
    assert done.returncode == 125
    assert hint in done.stderr
    for options in (("--trust-choices", name, "--choices", "strict"), ("--choices", "strict")):
        assert there(*options).stdout == f"kept {name}\n"


def test_a_failure_to_save_is_no_failure_of_the_command(run: Run, out: Path) -> None:
    (out / "choices").write_text("a file of the user")
    done = run(COMPILE, "--save-choices")
    assert done.stdout == "made none\n"
    assert "warning: the choices of this run are not known, and not saved: " in done.stderr


def test_settings_of_the_user_come_before_those_of_a_cache(run: Run) -> None:
    run(COMPILE, "--save-choices")
    done = run(
        'echo "$TORCHINDUCTOR_CACHE_DIR $PYTORCH_TUNABLEOP_FILENAME"',
        "-e",
        "PYTORCH_TUNABLEOP_FILENAME=/tmp/x",
    )
    assert done.stdout == "/var/cache/reprobuild-choices/inductor /tmp/x\n"


WORK = f"{COMPILE} cat cache/44 >$0/result"


def test_verify_runs_a_workload_with_saved_choices(run: Run, out: Path, env: Mapping[str, str]) -> None:
    run(COMPILE, "--save-choices")
    name = digest(out)

    def verify(script: str, *options: str) -> subprocess.CompletedProcess[str]:
        words = ["sh", "-c", script, "{out}"]
        return reprobuild(
            "verify", out, "--only", "workload", "--runs", "2", "--output-file", "{out}/result", *options, "--workload",
            shlex.join(words), env=env,
        )  # fmt: skip

    done = verify(WORK)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"choices {name[:12]}: no miss") == 2
    assert f"your work began with the saved choices of compilers {name}" in done.stdout
    done = verify(f"{ANOTHER} echo x >$0/result", "--choices", "strict")
    assert done.returncode == 9
    assert "the run was not one of its saved choices alone: 1 new measurements" in done.stderr
    done = verify('echo "${TORCHINDUCTOR_CACHE_DIR-none}" >$0/result', "--choices", "off")
    assert done.returncode == 0, done.stderr
    assert "choices" not in done.stdout
