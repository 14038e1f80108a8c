"""Types of strings of documents: their grammars, and that every document has them everywhere."""

from __future__ import annotations

from typing import Annotated, Any, get_origin

import pytest
from msgspec import Raw, Struct

from reprobuild.image.model import Image
from reprobuild.infra.untrusted import strings as module
from reprobuild.infra.untrusted.strings import Sha256, Text
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.recipe.image_config import format_time
from tests.untrusted.types_walk import free_strings, strings


class Below(Struct):
    """A part of a document that holds itself."""

    good: Sha256
    bad: str
    more: tuple[Below, ...] = ()


class Document(Struct):
    """A document with each kind of place where a string can stand."""

    name: str
    text: Text
    count: int
    parts: tuple[Below, ...]
    values: dict[str, Sha256]
    keys: dict[Sha256, str | None]
    pair: tuple[Sha256, str]
    anything: Any
    raw: Raw
    either: list[str] | Sha256 | None


def test_walk_finds_each_free_string() -> None:
    assert free_strings(Document) == [
        "$.name", "$.parts[...].bad", "$.values{key}", "$.keys[...]", "$.pair[1]", "$.anything", "$.raw",
        "$.either[...]",
    ]  # fmt: skip
    assert [path for path, _ in strings(Document) if path not in free_strings(Document)] == [
        "$.text", "$.parts[...].good", "$.values[...]", "$.keys{key}", "$.pair[0]", "$.either",
    ]  # fmt: skip


@pytest.mark.parametrize("root", [Lock, SealedLock, Image])
def test_no_string_of_a_document_is_without_a_grammar(root: type) -> None:
    assert free_strings(root) == []
    assert len(strings(root)) >= len(root.__struct_fields__) - 4  # it did walk


# Each type with texts that people have, and with ones that act in some place where a document is used.
GOOD: dict[str, tuple[str, ...]] = {
    "Sha256": ("0" * 64, "0123456789abcdef" * 4),
    "OptionalSha256": ("", "f" * 64),
    "Digest": (f"sha256:{'a' * 64}",),
    "OptionalDigest": ("", f"sha256:{'a' * 64}"),
    "GitObject": ("a" * 40, "a" * 64),
    "FileName": ("a", "torch-2.1+cpu-cp311-cp311-linux_x86_64.whl", "a_1%3a2.0_amd64.deb", "x-1!2-h0.conda", "Größe"),
    "ArtefactName": ("-work-0123456789ab.tar", "libc6_2.36-9+deb12u7_amd64.deb", "a b.zip", "..a", "a.."),
    "BlobName": ("library/python, layer 0123456789ab",),
    "ProjectName": ("a", "ruamel.yaml", "zope-interface", "Foo_Bar2"),
    "SourceName": ("project", "-work", "a-job2"),
    "Version": ("1.0", "1.0-1", "1:2.36-9+deb12u7", "2.1.0+cpu", "2004d", "1!2.0", "0~20210101", "9e", "1.0_1"),
    "OptionalVersion": ("", "1.0.post1"),
    "Architecture": ("amd64", "all", "x86_64", "linux-64", "noarch"),
    "Platform": ("linux/amd64", "linux/arm/v7"),
    "Profile": ("torch", "strict,torch"),
    "Kind": ("", "withdrawn", "conda-build"),
    "PackageName": ("libstdc++6", "_libgcc_mutex", "python3.11", "0ad"),
    "CondaBuild": ("0", "main", "py311h06a4308_0", "py3.9_cuda11.8_cudnn8.7.0_0", "_cp39"),
    "VariableName": ("PATH", "_x1"),
    "NamePattern": ("PATH", "TORCH_*", "[A-Z]*", "?X"),
    "Hex": ("", "AbCd09"),
    "Word": ("a", "_x", "core.bare", "a-b"),
    "NodeName": ("n1", "gpu-07.example.org"),
    "Instant": ("2026-07-11T10:16:37Z",),
    "QuotedPath": ("", "a/b c", '"a\\303\\274"', '"a\\tb"', "/home/a"),
    "QuotedRelativePath": ("", "a/b c", '"a\\303\\274"', "-a", "..a"),
    "RemoteAddress": ("", "https://example.org/a.git", "../a", "/srv/a b.git", "git@example.org:a"),
    "Href": ("", "../../files/a-1.0.tar.gz#sha256=0", "https://example.org/a b"),
    "TreePath": ("", "usr/bin/a", "a\nb", "-a", "a\\b"),
    "LinkTarget": ("", "../../etc", "/etc", "a\nb"),
    "MediaType": ("", "application/vnd.oci.image.layer.v1.tar+zstd", "text/html; charset=utf-8"),
    "EncodedPath": ("/", "/home/a%20b/reprobuild.lock"),
    "OptionalAbsolutePath": ("", "/", "/a b"),
    "CondaName": ("_libgcc_mutex", "1.0.1", "py39_0", "1!2"),
    "Key": ("", "a\nb"),
    "ShortLine": ("", "a b"),
    "BundlePath": ("image/blobs/sha256/00", "README.md"),
    "ImageName": ("reprobuild:0123456789ab", "localhost/a:1"),
    "AbsolutePath": ("/", "/a b/$HOME/\"c'", "/src/x", "/units/a\\x2db.mount", "/...", "/.hidden"),
    "PlainPath": ("/usr/bin/python3.11", "/opt/env/bin/python3.13t", "/src/-work", "/..."),
    "SourcePath": ("/src/project", "/src/-work", "/src/a-job2"),
    "WorkingFolder": ("/", "/workspace", "/src/x/a b", "/opt/env/lib/python3.11/site-packages", "/process", "/devices"),
    "PlainWord": ("base-0123456789ab.tar", "sources/-work-0123.tar", "org.example.label"),
    "LibraryPath": ("/usr/lib/x86_64-linux-gnu/../lib//libjemalloc.so.2", "/a b"),
    "RelativePath": ("a", "a/b c"),
    "OptionalRelativePath": ("", "python", "a/b"),
    "MemberPath": ("a/b.so", "-a", "a\\b"),
    "Reference": ("debian:12", "[::1]:5000/x:1", f"h:5000/a/b@sha256:{'0' * 64}"),
    "Url": ("https://example.org/a?b=c#d", "git+ssh://git@example.org:2222/a.git"),
    "FileUrl": (
        "", "https://user@example.org:8443/a%20b/c.whl", "file:///a b/c.whl", "HTTPS://example.org/x", "ftp://h/x",
        "file:/x", "http://example.org/größe",
    ),
    "RepositoryUrl": (
        "", "git+https://example.org/a.git", "git@example.org:team/a.git", "ssh://git@example.org:22/a", "/srv/a b.git",
        "../a", "hg+https://example.org/a", "svn+ssh://example.org/a", "file:///srv/a",
    ),
    "Channel": ("conda-forge", "nvidia/label/cuda-12.1", "https://example.org/c", "file:///srv/my channel"),
    "Label": ("debian", "application/vnd.oci.image.layer.v1.tar+gzip", "22.04"),
    "Line": ("", "a b", "-e", "größe"),
    "Text": ("", "a\nb\x1b", "\0"),
    "Value": ("", "a\nb", "{{ x }}"),
}  # fmt: skip
# What no name, path, address or word can be.
ACTING = ("\n", "a\nb", "a\n", "\r", "a\0b", "a\u2028b", "a\u0085b", "a\x1bb", "a\x7f", "x" * (1 << 17))
NO_NAMES = ("", "..", ".", "../a", "a/b", "/a", "a/..", "a\\b", *ACTING)
NO_PATHS = ("", "a", "//", "/a/", "/a//b", "/..", "/a/../b", "/./a", "/a\n", *ACTING)
BAD: dict[str, tuple[str, ...]] = {
    "Sha256": ("", "0" * 63, "A" * 64, "0" * 64 + "\n", "../" * 21 + "a", *ACTING),
    "OptionalSha256": ("0", *ACTING),
    "Digest": ("", "0" * 64, "sha512:" + "0" * 64, "sha256:" + "0" * 64 + "\n"),
    "OptionalDigest": ("0" * 64, *ACTING),
    "GitObject": ("", "abc", "HEAD", "-a", "a" * 41, "a" * 40 + "\n", "A" * 40, *ACTING),
    "FileName": ("-rf", ".wh.a", ".wh..wh..opq", *NO_NAMES),
    "ArtefactName": (".wh.a", "../" * 24 + "victim/.bashrc", *NO_NAMES),
    "BlobName": ("", "..", "a/../b", "/a", "a//b", *ACTING),
    "ProjectName": ("-a", "a-", "a b", "a;b", "größe", *NO_NAMES),
    "SourceName": ("A", "a_b", "a.b", *NO_NAMES),
    "Version": ("-1", "1 --index-url", "1;a", "$(a)", "1#", *NO_NAMES),
    "OptionalVersion": ("-", *ACTING),
    "Architecture": ("AMD64", "a b", *NO_NAMES),
    "Platform": ("linux", "linux/", "Linux/amd64", "linux/amd64\n", *ACTING),
    "Profile": ("", ",", "a,", "a b", *ACTING),
    "Kind": ("-a", "A", "a b", *ACTING),
    "PackageName": ("-a", "a b", "a:b", *NO_NAMES),
    "CondaBuild": ("a b", "a-b\n", "../a", *ACTING),
    "VariableName": ("1a", "A=B", "A-B", "A B", "$A", "A;b", *NO_NAMES),
    "NamePattern": ("", "A=B", "A B", "A\tB", "A\n", "x" * 256),
    "Hex": ("g", "0x1", "a b", "\n", "x" * (1 << 17)),
    "Word": ("-a", "a b", "a;b", *NO_NAMES),
    "NodeName": ("-a", "_a", "a b", *NO_NAMES),
    "Instant": ("", "2026-07-11", "2026-07-11T10:16:37+01:00", "2026-07-11T10:16:37Z\n", *ACTING),
    "QuotedPath": ("\n", "a\nb", '"a', 'a"b', '"a\\q"', "a\0b", "\x1b", "x" * (1 << 17)),
    "QuotedRelativePath": ("/a", '"/a"', "..", "../a", "a/../b", '"../a"', "a\n", "a\0b", "\x1b", "x" * (1 << 17)),
    "RemoteAddress": ("-a", "--upload-pack=a", *ACTING),
    "Href": ("-a", *ACTING),
    "TreePath": ("/", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a\0b", "x" * (1 << 17)),
    "LinkTarget": ("\0", "a\0b", "x" * (1 << 17)),
    "MediaType": ("a\tb", "ü", "a,b", *ACTING),
    "EncodedPath": ("", "a", "/a b", "/ü", *ACTING),
    "OptionalAbsolutePath": ("a", "//", "/a/", "/..", "/a/../b", *ACTING),
    "CondaName": ("", "a b", "a/b", "../a", *ACTING),
    "Key": ("x" * 4097,),
    "ShortLine": ("x" * 201, *ACTING),
    "BundlePath": ("-a", "/".join(["a"] * 33), "..", "/a", "a/../b", "a\\b", "", *ACTING),
    "ImageName": ("", "-a", "a b", "a;b", "$a", *ACTING),
    "AbsolutePath": NO_PATHS,
    "PlainPath": ("/", "/a b", "/$a", "/a;b", '/a"', "/a\\", "/a*", *NO_PATHS),
    "SourcePath": (
        "/proc/self/root/usr/local/sbin", "/opt", "/mnt", "/src", "/src/", "/src/a/b", "/src/a/", "/src/A", "/src/a_b",
        "/src/.", "/src/..", "/src/../opt", "/usr/src/a", "src/a", "//src/a", "/src//a", "/src/a\n", *NO_PATHS,
    ),
    "WorkingFolder": (
        "/proc", "/proc/self/root/x", "/sys", "/dev/shm", "/src/../proc", "/src/./x", "//proc", "/proc\n", *NO_PATHS,
    ),
    "PlainWord": ("", "-a", "a b", "..", "../a", "a/../b", "a/..", "./a", "$a", "a;b", '"', "*", *ACTING),
    "LibraryPath": ("", "a", *ACTING),
    "RelativePath": ("-a", "/a", "a/", "a//b", "..", "a/../b", "a\\b", "", *ACTING),
    "OptionalRelativePath": ("..", "/a", "a/../b", "a/", "-a", *ACTING),
    "MemberPath": ("", "..", "/a", "a/../b", "a/", *ACTING),
    "Reference": ("", "-a", "a b", "a;b", "$a", *ACTING),
    "Url": ("", "example.org", "ext::sh -c a", "https://a b", "javascript://a", *ACTING),
    "FileUrl": ("example.org", "ext::sh", "git+https://h/x", "ssh://h/x", "https://", "-a", "\nhttps://h/x", *ACTING),
    "RepositoryUrl": ("--upload-pack=a", "-a", "ext::sh -c a", "fd::0", "foo::https://h/x", *ACTING),
    "Channel": ("", "-c", *ACTING),
    "Label": ("", "-a", "a b", "a;b", *ACTING),
    "Line": ACTING,
    "Text": ("x" * (1 << 21),),
    "Value": ("\0", "a\0b", "x" * (1 << 21)),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_grammars(name: str) -> None:
    kind = getattr(module, name)
    assert [text for text in GOOD[name] if not module.is_valid(text, kind)] == []
    assert [text[:80] for text in BAD[name] if module.is_valid(text, kind)] == []
    assert not module.is_valid(1, kind)
    assert not module.is_valid(None, kind)


def test_each_type_has_its_examples() -> None:
    annotated = {name for name, value in vars(module).items() if get_origin(value) is Annotated}
    assert annotated - {"Size", "Epoch", "Seed"} == GOOD.keys() == BAD.keys()


def test_numbers() -> None:
    for kind, last in ((module.Size, 1 << 62), (module.Epoch, 253402300799), (module.Seed, (1 << 32) - 1)):
        assert module.is_valid(0, kind)
        assert module.is_valid(last, kind)
        assert not module.is_valid(-1, kind)
        assert not module.is_valid(last + 1, kind)
    format_time(253402300799)
