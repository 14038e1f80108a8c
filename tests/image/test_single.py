"""image.sif and image.sqsh with the real mksquashfs: one image, one file, whoever wrote it and wherever."""

from __future__ import annotations

import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.errors import BuildError, EngineError
from reprobuild.image.formats.apptainer_files import apptainer_files, oci_config, scripts
from reprobuild.image.formats.enroot import enroot_files
from reprobuild.image.formats.sif import read_sif
from reprobuild.image.formats.single_file import keep_matching_singles, remember_singles, write_singles
from reprobuild.image.formats.squashfs_write import find_program
from reprobuild.image.layering.merge import Tree
from reprobuild.image.model import Image
from reprobuild.image.oci.read import Layout, layout_tree
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.pipeline.report import write_report
from reprobuild.recipe.runtime_config import RuntimeConfig, read_runtime_config
from reprobuild.store.store import Store
from tests.image.layouts import RUNTIME, image_of, write_image
from tests.image.made import BASE, file, folder, symlink
from tests.image.test_flat import TREE
from tests.squashfs import open_folder, squashfs_tree
from tests.verify.samples import make_lock, make_verdict

INSTALL = "install squashfs-tools 4.5 or newer (Debian 12 and Ubuntu 22.04 have it), or leave out --format"
REPOSITORY = Path(__file__).parent.parent.parent
DEFINITION = "Bootstrap: scratch\n"
ROOT = (TarEntry(path=".", type="directory", mode=0o751), b"")
# Blocks, tails and equal files, as a real image has.
BIG = [file(f"opt/big{n}", hashlib.sha256(b"%d" % (n % 7)).digest() * (n * 977)) for n in range(30)]

Kinds = Collection[str]


def written(
    layout: Layout, env: Mapping[str, str], kinds: Kinds = ("sif", "sqsh"), **more: Any
) -> dict[str, str]:
    said: list[str] = []
    out = layout.folder.parent
    found = write_singles(image_of(layout), out, kinds, DEFINITION, env, said.append, **more)  # type: ignore[arg-type]  # by name
    assert said == [f"image: image.{kind}" for kind in ("sif", "sqsh") if kind in kinds]
    for kind, digest in found.items():
        assert digest == f"sha256:{hashlib.sha256((out / f'image.{kind}').read_bytes()).hexdigest()}"
    return found


def sif_tree(path: Path, env: Mapping[str, str]) -> Tree:
    return squashfs_tree(path, env, read_sif(path).system.offset)


def content(path: Path, name: str) -> bytes:
    """Return the bytes of an object of a SIF."""
    (found,) = (each for each in read_sif(path).objects if each.name == name)
    return path.read_bytes()[found.offset : found.offset + found.size]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return write_image(tmp_path / "out" / "image", [[ROOT, *TREE, *BIG]])


@pytest.mark.parametrize("compressor", ["zstd", "gzip"])
def test_the_tree_comes_back(compressor: str, layout: Layout, squashfs: dict[str, str]) -> None:
    """Modes, owners, links, attributes, names of any bytes, content: read by a program of other authors."""
    written(layout, squashfs, compressor=compressor)
    expected = layout_tree(layout)
    sif = sif_tree(layout.folder.parent / "image.sif", squashfs)
    own = sorted(set(sif) - set(expected))
    assert own == [
        ".singularity.d", ".singularity.d/Singularity", ".singularity.d/env",
        ".singularity.d/env/90-environment.sh", ".singularity.d/env/99-base.sh", ".singularity.d/labels.json",
        ".singularity.d/libs", ".singularity.d/runscript", ".singularity.d/startscript", ".singularity.d/test",
        "dev", "etc/hosts", "etc/resolv.conf", "home", "proc", "sys", "var", "var/tmp",
    ]  # fmt: skip
    assert {path: entry for path, entry in sif.items() if path not in own} == expected
    assert (sif["var/tmp"].mode, sif["dev"].mode, sif["etc/hosts"].size) == (0o1777, 0o755, 0)

    sqsh = squashfs_tree(layout.folder.parent / "image.sqsh", squashfs)
    own = sorted(set(sqsh) - set(expected))
    assert own == ["etc/environment", "etc/fstab", "etc/rc"]
    assert {path: entry for path, entry in sqsh.items() if path not in own} == expected


def test_the_root_and_the_times(layout: Layout, squashfs: dict[str, str]) -> None:
    written(layout, squashfs)
    path = layout.folder.parent / "image.sqsh"
    listed = subprocess.run(
        ["unsquashfs", "-lln", "-UTC", path],
        env=squashfs,
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    ).stdout
    assert re.search(r"^drwxr-x--x 0/0 +\d+ 2023-11-14 22:13 squashfs-root$", listed, re.MULTILINE)
    assert set(re.findall(r" (\d{4}-\d\d-\d\d \d\d:\d\d) squashfs-root", listed)) == {"2023-11-14 22:13"}
    about = subprocess.run(
        ["unsquashfs", "-s", "-UTC", path],
        env=squashfs,
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    ).stdout
    assert "Tue Nov 14 22:13:20 2023" in about
    assert "Compression zstd" in about


def relayered(folder: Path) -> Layout:
    """The same tree, as another builder might have written it."""
    linked = [pair for pair in [ROOT, *TREE, *BIG] if pair[0].path != "usr/bin/python3.11"]
    high = [pair for pair in reversed(linked) if pair[0].type != "hardlink"]
    gone = [file("opt/old", b"x"), file("opt/big3", b"other")]
    return write_image(folder, [BASE, gone, [file("opt/.wh.old", b""), *high]], packing="gzip")


@pytest.mark.parametrize("kind", ["sif", "sqsh"])
def test_one_image_one_file(
    kind: str, layout: Layout, tmp_path: Path, squashfs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice, other layers, directory, umask, time zone, locale and number of processors."""
    first = written(layout, squashfs, [kind])
    assert written(layout, squashfs, [kind]) == first

    other = relayered(tmp_path / "another directory" / "image")
    env = {
        **squashfs,
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": "5",
        "HOME": "/nonexistent",
    }
    umask, processors = os.umask(0o077), os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        assert written(other, env, [kind]) == first
        mode = (other.folder.parent / f"image.{kind}").stat().st_mode & 0o777
    finally:
        os.umask(umask)
        os.sched_setaffinity(0, processors)
    assert mode == 0o700
    assert written(layout, squashfs, [kind], compressor="gzip") != first


def test_what_apptainer_reads(layout: Layout, squashfs: dict[str, str]) -> None:
    written(layout, squashfs, ["sif"])
    path = layout.folder.parent / "image.sif"
    assert [each.name for each in read_sif(path).objects] == [
        "",
        "inspect-metadata.json",
        "oci-config.json",
        "",
    ]
    config = json.loads(content(path, "oci-config.json"))
    assert config == {**RUNTIME, "Env": sorted(RUNTIME["Env"])}
    assert read_runtime_config(config) == read_runtime_config(RUNTIME)
    metadata = json.loads(content(path, "inspect-metadata.json"))
    attributes = metadata["data"]["attributes"]
    assert metadata["type"] == "container"
    assert attributes["labels"] == RUNTIME["Labels"]
    assert attributes["deffile"] == "Bootstrap: scratch"
    assert attributes["runscript"].splitlines() == [
        "#!/bin/sh", "cd '/src/a b' || exit 1", "[ $# -gt 0 ] || set -- /bin/bash",
        "exec /usr/bin/python3.11 -I 'entry point.py' \"$@\"",
    ]  # fmt: skip
    environment = attributes["environment"]["/.singularity.d/env/90-environment.sh"]
    assert environment.splitlines()[1:] == ["export A='it'\"'\"'s'", "export PATH=/usr/bin:/bin"]
    assert attributes["test"].endswith("exec /.singularity.d/runscript true")


HOSTILE = {
    "EMPTY": "",
    "SPACES": "  two before, two after  ",
    "DOUBLE": 'say "no"',
    "SINGLE": "it's '' ''",
    "QUOTED": '"all of it"',
    "HALF": "'",
    "DOLLAR": "$5 $$ ${PATH} ${NONE:-x} $(touch /tmp/pwned) `id`",
    "BACKSLASH": "C:\\new\\\\ \\",
    "NEWLINES": "first\n\nexport PATH=/evil\nEOF\n",
    "RETURN": "a\r\nb",
    "COMMENT": "# none",
    "SHELL": "a; exit 3 | c & d > e * ? ~ ! %s",
    "BYTES": "\x01\x1b\x7f\udcff\u2028é",
    "ENROOT_X": "kept by enroot",
}
ENVIRONMENT = [f"{name}={value}" for name, value in HOSTILE.items()]


def test_ports_and_volumes_have_the_form_of_oci() -> None:
    given = {"ExposedPorts": {"80/tcp": {}, "22/tcp": {}}, "Volumes": {"/data": {}}, "User": "", "Cmd": None}
    found = oci_config(read_runtime_config(given))
    assert found == (b'{"ExposedPorts":{"22/tcp":{},"80/tcp":{}},"Volumes":{"/data":{}},"WorkingDir":"/"}\n')
    assert read_runtime_config(json.loads(found)).digest_part() == read_runtime_config(given).digest_part()


def in_shell(script: str, *arguments: str) -> bytes:
    """Run a script with sh, and return what it prints; the text's bytes are kept."""
    argv = ["sh", "-c", script, "sh", *arguments]
    return subprocess.run([os.fsencode(a) for a in argv], env={}, capture_output=True, check=True).stdout


def variables(script: str) -> dict[str, str]:
    out = in_shell(script + '\nexec "$@"', sys.executable, "-I", "-S", "-c", DUMP)
    return dict(os.fsdecode(item).split("=", 1) for item in out.split(b"\0") if item)


DUMP = "import sys; sys.stdout.buffer.write(open('/proc/self/environ', 'rb').read())"


def test_hostile_values_reach_the_process_as_they_are() -> None:
    text = scripts(read_runtime_config({"Env": ENVIRONMENT}))[".singularity.d/env/90-environment.sh"]
    found = variables(text)
    assert {name: found.get(name) for name in HOSTILE} == HOSTILE


def as_enroot_reads(text: str, host: Mapping[str, str]) -> dict[str, str]:
    """What enroot's documentation says of /etc/environment, and that a pair of quotes is taken off."""
    found = {}
    for line in text.splitlines():
        filled = re.sub(r"\$\{([A-Za-z_]\w*)\}", lambda match: host.get(match[1], ""), line)
        name, equals, value = filled.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name) and not name.startswith("ENROOT_"):
            for _ in range(2):
                value = re.sub(r"""^["'](.*)["']\s*$""", r"\1", value)
            found[name] = value
    return found


def test_hostile_values_reach_enroot() -> None:
    """What /etc/environment cannot carry is set by /etc/rc."""
    own = {
        entry.path: os.fsdecode(data)
        for entry, data in enroot_files(read_runtime_config({"Env": ENVIRONMENT}))
    }
    assert own["etc/fstab"] == ""
    found = as_enroot_reads(own["etc/environment"].replace("\u2028", "?"), {"PATH": "/host"})
    assert found["SPACES"] == HOSTILE["SPACES"]
    exported = variables("\n".join(own["etc/rc"].split("\ncd / || exit 1\n")[:1]) + "\n")
    assert {"QUOTED", "DOLLAR", "NEWLINES", "RETURN", "ENROOT_X"} <= set(exported)
    both = {**found, **{name: exported[name] for name in HOSTILE if name in exported}}
    assert both == {**HOSTILE, "BYTES": HOSTILE["BYTES"].replace("\u2028", "?")}


@pytest.mark.parametrize(
    ("config", "given", "printed"),
    [
        ({"Entrypoint": ["printf", "%s|"], "Cmd": ["a b", "$c"]}, [], "a b|$c|"),
        ({"Entrypoint": ["printf", "%s|"], "Cmd": ["a b"]}, ["x y", ""], "x y||"),
        ({"Entrypoint": ["printf", "it's %s"]}, ["'"], "it's '"),
        ({"Cmd": ["printf", "%s", "alone"]}, [], "alone"),
        ({"Cmd": ["printf", "no"]}, ["printf", "yes"], "yes"),
        ({"Entrypoint": ["pwd"], "WorkingDir": "/usr/../tmp"}, [], "/tmp\n"),
    ],
)
def test_the_runscript_does_what_docker_run_does(
    config: dict[str, Any], given: list[str], printed: str
) -> None:
    assert (
        in_shell(scripts(read_runtime_config(config))[".singularity.d/runscript"], *given).decode() == printed
    )


def test_the_runscript_stops_where_the_folder_is_gone() -> None:
    script = scripts(RuntimeConfig(entrypoint=("echo", "ran"), working_dir="/no such"))[
        ".singularity.d/runscript"
    ]
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


def test_the_libraries_of_the_host_come_after_those_of_the_image(tmp_path: Path) -> None:
    """Where the host brings none, a captured variable is what it was."""
    base = scripts(RuntimeConfig())[".singularity.d/env/99-base.sh"].replace(
        "/.singularity.d/libs", str(tmp_path)
    )
    show = 'printf %s "${LD_LIBRARY_PATH-unset}"'
    assert in_shell(base + show) == b"unset"
    assert in_shell("LD_LIBRARY_PATH=/a:/b\n" + base + show) == b"/a:/b"
    (tmp_path / "libcuda.so.1").touch()
    assert in_shell(base + show) == os.fsencode(tmp_path)
    assert in_shell("LD_LIBRARY_PATH=/a:/b\n" + base + show) == b"/a:/b:" + os.fsencode(tmp_path)


@pytest.mark.parametrize("pair", ["a-b=1", "BASH_FUNC_x%%=() { :; }", "=x", "1=x", "A\n=x", "A=x\0y"])
def test_variables_that_no_shell_can_set(pair: str) -> None:
    config = RuntimeConfig(env=(pair,))
    for make in (lambda: enroot_files(config), lambda: apptainer_files({}, config, "")):
        with pytest.raises(BuildError, match="which a shell cannot set") as caught:
            make()
        assert caught.value.hint == (
            "a SIF and a .sqsh set variables by shell: take this one out of the image's configuration"
        )


def failing(layout: Layout, env: Mapping[str, str], error: type[Exception], match: str) -> str:
    """Write both files, see it fail, and see that nothing is left behind; return the hint."""
    before = sorted(path.name for path in layout.folder.parent.iterdir())
    with pytest.raises(error, match=match) as caught:
        write_singles(
            image_of(layout), layout.folder.parent, ["sif", "sqsh"], DEFINITION, env, lambda _: None
        )
    assert sorted(path.name for path in layout.folder.parent.iterdir()) == before
    return str(getattr(caught.value, "hint", ""))


def test_an_image_that_was_a_sif(tmp_path: Path, squashfs: dict[str, str]) -> None:
    layout = write_image(tmp_path / "out" / "image", [[*BASE, folder(".singularity.d")]])
    hint = failing(layout, squashfs, BuildError, r"the image has a /\.singularity\.d of its own")
    assert hint == "build it without /.singularity.d: a SIF is made of an image that was none before"


def test_an_architecture_without_a_number(tmp_path: Path, squashfs: dict[str, str]) -> None:
    layout = write_image(tmp_path / "out" / "image", [BASE], architecture="sparc")
    assert failing(layout, squashfs, BuildError, "architecture 'sparc'").startswith("it can be for 386")


def test_a_mount_point_below_a_link(tmp_path: Path, squashfs: dict[str, str]) -> None:
    """What the image has under that name stays as it is."""
    links = [symlink("var/tmp", "/tmp"), symlink("home", "usr/home"), symlink("etc/resolv.conf", "../run/x")]
    layout = write_image(tmp_path / "out" / "image", [[*BASE, *links]])
    written(layout, squashfs, ["sif"])
    tree = sif_tree(layout.folder.parent / "image.sif", squashfs)
    assert [tree[entry.path].target for entry, _ in links] == ["/tmp", "usr/home", "../run/x"]
    other = write_image(tmp_path / "other" / "image", [[symlink("etc", "usr/etc")]])
    hint = failing(other, squashfs, BuildError, "a layer writes below /etc, which is a symlink")
    assert hint.startswith("the layer is damaged")


def test_device_nodes_are_said_to_be_left_out(tmp_path: Path, squashfs: dict[str, str]) -> None:
    null = (TarEntry(path="dev/null", type="char", mode=0o666, device=(1, 3)), b"")
    layout = write_image(tmp_path / "out" / "image", [[*BASE, null]])
    said: list[str] = []
    write_singles(image_of(layout), layout.folder.parent, ["sqsh"], DEFINITION, squashfs, said.append)
    assert said == [
        "left out: 1 device nodes (/dev/null), which are the host's at run time",
        "image: image.sqsh",
    ]
    assert "dev/null" not in squashfs_tree(layout.folder.parent / "image.sqsh", squashfs)


@pytest.fixture
def shim(squashfs: dict[str, str]) -> Iterator[Callable[[str], dict[str, str]]]:
    """A function that puts a script in the place of mksquashfs."""
    with open_folder() as folder:

        def make(script: str) -> dict[str, str]:
            path = folder / "mksquashfs"
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
            return {**squashfs, "PATH": f"{folder}:{squashfs['PATH']}"}

        yield make


def test_without_mksquashfs(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    env = {"PATH": str(tmp_path / "bin")}
    words = "`mksquashfs` is not on PATH, and is needed to write a squashfs"
    assert failing(layout, env, EngineError, words) == INSTALL


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'mksquashfs version 4.4 (2019/08/29)'", "`mksquashfs` is 4.4, and cannot read a tar"),
        ("echo 'mksquashfs version 4.3-git.1' >&2; exit 1", "`mksquashfs` is 4.3, and cannot read a tar"),
        ("echo hello", "`mksquashfs` does not say which version it is"),
    ],
)
def test_a_mksquashfs_of_old(
    script: str, words: str, layout: Layout, shim: Callable[[str], dict[str, str]]
) -> None:
    assert failing(layout, shim(script), EngineError, words) == INSTALL


def test_the_version_of_the_one_that_is_there(
    squashfs: dict[str, str], shim: Callable[[str], dict[str, str]]
) -> None:
    assert find_program(squashfs) >= (4, 5)
    assert find_program(shim("echo 'mksquashfs version 10.0 (2050/01/01)'")) == (10, 0)


def test_a_mksquashfs_that_fails(layout: Layout, shim: Callable[[str], dict[str, str]]) -> None:
    script = '[ "$1" = -version ] && { echo version 4.5; exit; }\nhead -c 9 >&2; echo FATAL >&2; exit 1'
    hint = failing(layout, shim(script), EngineError, r"could not write \.image\.sif\.\w+: .*exited 1")
    assert hint == "see above what mksquashfs says; nothing was left behind"


def test_a_root_that_is_not_roots(
    tmp_path: Path, squashfs: dict[str, str], shim: Callable[[str], dict[str, str]]
) -> None:
    root = (TarEntry(path=".", type="directory", mode=0o755, uid=3, gid=4), b"")
    layout = write_image(tmp_path / "out" / "image", [[root, *BASE]])
    env = shim("echo 'mksquashfs version 4.5.1 (2022/03/17)'")
    hint = failing(layout, env, EngineError, "the image's / belongs to 3:4, which `mksquashfs` cannot write")
    assert hint == "install squashfs-tools 4.6 or newer, or give / to root in the image"


BY_ANOTHER = """
import os, sys
from pathlib import Path
from reprobuild.image.oci.read import read_layout
from reprobuild.image.formats.single_file import write_singles
from tests.image.layouts import image_of
layout = read_layout(Path(sys.argv[1]))
try:
    print(write_singles(image_of(layout), layout.folder.parent, ["sif", "sqsh"], sys.argv[2], dict(os.environ), len))
except Exception as err:
    print(err, err.hint, sep="\\n")
"""


def by_another(out: Path, env: Mapping[str, str]) -> str:
    """Write both files as an ordinary user into a directory that is theirs, and return what is printed."""
    argv = [
        *("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--inh-caps=+dac_read_search"),
        *("--ambient-caps=+dac_read_search", sys.executable, "-c", BY_ANOTHER, str(out / "image"), DEFINITION),
    ]  # fmt: skip
    done = subprocess.run(argv, env=dict(env), cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def theirs(layout: Layout) -> Iterator[Path]:
    """The layout in a directory of an ordinary user."""
    with open_folder() as out:
        shutil.copytree(layout.folder, out / "image")
        os.chown(out, 12345, 12345)
        yield out


def test_an_ordinary_user_gets_the_same_bytes(layout: Layout, theirs: Path, squashfs: dict[str, str]) -> None:
    """Before 4.6 mksquashfs gives the root directory to whoever runs it."""
    assert by_another(theirs, squashfs) == f"{written(layout, squashfs)}\n"
    assert (theirs / "image.sif").stat().st_uid == 12345


def test_an_ordinary_user_without_user_namespaces(
    theirs: Path, shim: Callable[[str], dict[str, str]], squashfs: dict[str, str]
) -> None:
    env = shim("echo 'mksquashfs version 4.5.1 (2022/03/17)'")
    unshare = Path(env["PATH"].partition(":")[0]) / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2; exit 1\n")
    unshare.chmod(0o755)
    said = by_another(theirs, env)
    assert "unshare failed: Operation not permitted" in said
    assert said.endswith(
        "mksquashfs before 4.6 needs a user namespace where the user is not root: install 4.6 or newer\n"
    )
    assert [path.name for path in theirs.iterdir()] == ["image"]


def test_a_full_disk(layout: Layout, tmp_path: Path, squashfs: dict[str, str]) -> None:
    """The former files stay. The limit is on one file's size, which the layers are below."""
    out = layout.folder.parent
    (out / "image.sif").write_bytes(b"former")
    spools = max(layout.blob(digest).stat().st_size for _, digest, _ in layout.layers)
    assert spools < 2**20
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    noise = write_image(
        tmp_path / "noise" / "image", [[file(f"f{n}", os.urandom(90_000))] for n in range(30)]
    )
    shutil.copy(out / "image.sif", noise.folder.parent / "image.sif")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    try:
        failing(noise, squashfs, EngineError, "could not write .image.sif")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (noise.folder.parent / "image.sif").read_bytes() == b"former"


OF_THIS_IMAGE = f"sha256:{hashlib.sha256(b'of this image').hexdigest()}"


def test_files_of_an_earlier_run(layout: Layout, tmp_path: Path) -> None:
    """They stay recorded while the image is theirs, and go with it."""
    out, image, said, store = layout.folder.parent, image_of(layout), list[str](), Store(tmp_path / "store")
    (out / "image.sif").write_bytes(b"of this image")
    (out / "image.simg").write_bytes(b"the user's own")
    former = msgspec.structs.replace(image, sif=OF_THIS_IMAGE)
    remember_singles(former, store)
    assert keep_matching_singles(image, former, out, store, said.append) == former
    assert (
        keep_matching_singles(image, None, out, store, said.append) == former
    )  # interrupted before it was recorded
    assert keep_matching_singles(image, image, out, store, said.append) == former
    assert said == []
    other = msgspec.structs.replace(image, manifest="sha256:other")
    assert keep_matching_singles(other, former, out, store, said.append) == other
    assert said == [f"removed {out / 'image.sif'}: it was of another image"]
    assert {path.name for path in out.iterdir()} >= {"image", "image.simg"}
    assert not (out / "image.sif").exists()
    assert keep_matching_singles(image, former, out, store, said.append) == image


@pytest.mark.parametrize("stated", ["stated", "not stated", "no image.json"])
@pytest.mark.parametrize("case", ["never written", "other bytes", "a link", "another store"])
def test_files_that_came_with_a_folder_are_not_adopted(
    case: str, stated: str, layout: Layout, tmp_path: Path
) -> None:
    """The image of a directory of others may be honest, and its image.sif not."""
    out, image, said, store = layout.folder.parent, image_of(layout), list[str](), Store(tmp_path / "store")
    former = msgspec.structs.replace(image, sif=OF_THIS_IMAGE)
    place, aside = out / "image.sif", tmp_path / "aside"
    place.write_bytes(b"evil" if case == "other bytes" else b"of this image")
    if case == "a link":
        place.rename(aside)
        place.symlink_to(aside)
    if case != "never written":
        remember_singles(former, Store(tmp_path / "other") if case == "another store" else store)
    told = {"stated": former, "not stated": image, "no image.json": None}[stated]
    assert keep_matching_singles(image, told, out, store, said.append) == image
    assert said == [f"removed {place}: it is not known to be of this image; write it with --format sif"]
    assert not place.is_symlink()
    assert not place.exists()
    assert aside.exists() == (case == "a link")


def test_a_page_names_no_file_of_another_party(layout: Layout, tmp_path: Path) -> None:
    """Found by an attacker: the page said of any image.sif that it is the same image."""
    out, store = layout.folder.parent, Store(tmp_path / "store")
    image = msgspec.structs.replace(image_of(layout), sif=OF_THIS_IMAGE)
    (out / "image.sif").write_bytes(b"of this image")

    def page() -> str:
        write_report(make_lock(), image, make_verdict(), out, image.reference, store)
        return (out / "report.html").read_text()

    same, make = (
        "The SIF in this directory is the same image.",
        "reprobuild build reprobuild.lock -o . --format sif",
    )
    assert (same in page(), make in page(), OF_THIS_IMAGE in page()) == (False, True, False)
    remember_singles(image, store)
    assert (same in page(), make in page()) == (True, False)
    (out / "image.sif").write_bytes(b"evil")
    assert same not in page()


def test_a_record_from_before_these_files_is_read() -> None:
    digests = dict.fromkeys(("tree", "config", "manifest"), f"sha256:{'0' * 64}")
    old = {"layout": "image", "reference": "a:1", **digests, "layers": 3}
    found = msgspec.json.decode(json.dumps(old).encode(), type=Image)
    assert (found.sif, found.sqsh, found.layers) == ("", "", 3)
