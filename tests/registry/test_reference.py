"""References: what is one, what it means, and what is refused without being repeated."""

from __future__ import annotations

import pytest

from reprobuild.ecosystems.oci_registry.reference import Reference, is_image, is_loopback, parse_reference
from reprobuild.errors import UsageError

HUB = "https://hub.test"
DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ubuntu:22.04", Reference(host="docker.io", name="library/ubuntu", tag="22.04")),
        (
            "docker.io/nvidia/cuda:12.1.0-base-ubuntu22.04",
            Reference(host="docker.io", name="nvidia/cuda", tag="12.1.0-base-ubuntu22.04"),
        ),
        ("index.docker.io/x/y:z", Reference(host="docker.io", name="x/y", tag="z")),
        ("nvidia/cuda:1", Reference(host="docker.io", name="nvidia/cuda", tag="1")),
        (
            f"registry.example:5000/site/base@{DIGEST}",
            Reference(host="registry.example:5000", name="site/base", digest=DIGEST),
        ),
        (
            f"registry.example/x:tag@{DIGEST}",
            Reference(host="registry.example", name="x", tag="tag", digest=DIGEST),
        ),
        ("localhost/x:1", Reference(host="localhost", name="x", tag="1")),
        ("[::1]:5000/x:1", Reference(host="[::1]:5000", name="x", tag="1")),
        ("image:debian/bookworm:1", Reference(host="docker.io", name="debian/bookworm", tag="1")),
    ],
)
def test_references_are_read_as_docker_reads_them(text: str, expected: Reference) -> None:
    assert is_image(text)
    assert parse_reference(text) == expected
    assert parse_reference(str(expected)) == expected


@pytest.mark.parametrize("text", ["debian/bookworm", "ubuntu/jammy", "nvidia/cuda", "localhost/x"])
def test_two_plain_words_are_a_release(text: str) -> None:
    assert not is_image(text)
    assert is_image(f"image:{text}")


@pytest.mark.parametrize(
    "text", ["registry.example/x", "image:debian/bookworm", "image:x", "registry.example:5000/x"]
)
def test_a_reference_tells_a_tag_or_a_digest(text: str) -> None:
    with pytest.raises(UsageError, match="tells neither a tag nor a digest") as err:
        parse_reference(text)
    assert err.value.hint == (
        "write it as HOST/NAME:TAG or HOST/NAME@sha256:DIGEST, as `docker pull` takes it"
    )


@pytest.mark.parametrize(
    "text",
    [
        "registry.example/X:1", "registry.example/../x:1", "registry.example/x:", "a..b/x:1", "-a.b/x:1",
        "registry.example/x:a/b", "registry.example/x:" + "y" * 129, "registry.example/" + "a" * 256 + ":1",
        "registry.example//x:1", "registry.example/x :1", "registry.example/x:1\n", ":", "image::1", "r.example/:1",
        "registry.example:123456/x:1",
    ],
)  # fmt: skip
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no reference to an image"):
        parse_reference(text)


@pytest.mark.parametrize(
    "text",
    [
        "alice:pa55word@registry.example/x:1", "https://alice:pa55word@registry.example/x:1",
        f"alice:pa55word@registry.example/x@{DIGEST}", "registry.example/x@sha256:pa55word",
        "registry.example/x@sha512:pa55word", "alice@pa55word",
    ],
)  # fmt: skip
def test_a_login_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="holds a login, a scheme or a broken digest") as err:
        parse_reference(text)
    assert "pa55word" not in f"{err.value} {err.value.hint}"
    assert err.value.hint == (
        "write HOST/NAME@sha256:DIGEST; a login belongs into the file that `docker login HOST` writes"
    )


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("ubuntu:1", HUB),
        ("registry.example:5000/x:1", "https://registry.example:5000"),
        ("127.0.0.1:5000/x:1", "http://127.0.0.1:5000"),
        ("localhost:5000/x:1", "http://localhost:5000"),
        ("[::1]:5000/x:1", "http://[::1]:5000"),
        ("10.0.0.1:5000/x:1", "https://10.0.0.1:5000"),
    ],
)
def test_only_this_machine_is_spoken_to_in_plain_text(text: str, root: str) -> None:
    assert parse_reference(text).root(HUB) == root


def test_names_that_look_like_this_machine_are_others() -> None:
    assert not any(map(is_loopback, ("127.0.0.1.evil.test", "localhost.evil.test", "evil.test:127")))
