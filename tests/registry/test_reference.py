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
        "registry.example/../x:1", "registry.example/x:", "a..b/x:1", "-a.b/x:1",
        "registry.example/x:a/b", "registry.example/x:" + "y" * 129, "registry.example/" + "a" * 256 + ":1",
        "registry.example//x:1", "registry.example/x :1", "registry.example/x:1\n", ":", "image::1", "r.example/:1",
        "registry.example:123456/x:1",
    ],
)  # fmt: skip
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no reference to an image"):
        parse_reference(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("alice:pa55word@registry.example/x:1", "a login"),
        ("https://alice:pa55word@registry.example/x:1", "a scheme and a login"),
        (f"alice:pa55word@registry.example/x@{DIGEST}", "a login"),
        ("alice:pa55word@registry.example/x@sha256:1", "a login"),
    ],
)
def test_a_login_is_refused_and_not_repeated(text: str, what: str) -> None:
    with pytest.raises(UsageError) as err:
        parse_reference(text)
    assert str(err.value) == f"`base` holds {what}"
    assert "pa55word" not in err.value.hint
    assert err.value.hint == (
        "write HOST/NAME@sha256:DIGEST; a login belongs into the file that `docker login HOST` writes"
    )


@pytest.mark.parametrize(
    "text",
    [
        "registry.example/x@sha256:pa55word", "registry.example/x@sha512:pa55word", "alice@pa55word",
        f"registry.example/x:1@{DIGEST.upper()}", f"ubuntu@{DIGEST}0",
    ],
)  # fmt: skip
def test_a_broken_digest_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as err:
        parse_reference(text)
    assert str(err.value) == "`base` holds a broken digest"
    assert err.value.hint == "a digest is `sha256:` and 64 digits of 0-9 and a-f: HOST/NAME@sha256:DIGEST"


@pytest.mark.parametrize(
    "bare", ["localhost:15055/ml/train:1", f"registry.example/x@{DIGEST}", f"registry.example/x:1@{DIGEST}"]
)
def test_a_scheme_is_refused_and_the_hint_leaves_it_out(bare: str) -> None:
    for text in (f"http://{bare}", f"docker://{bare}"):
        with pytest.raises(UsageError) as err:
            parse_reference(text, "REF")
        assert str(err.value) == "`REF` holds a scheme"
        assert err.value.hint == f"leave out the scheme: {bare}"
        assert parse_reference(err.value.hint.removeprefix("leave out the scheme: ")) == parse_reference(bare)
    with pytest.raises(UsageError, match="holds a scheme") as err:
        parse_reference("https://registry.example/a b")
    assert err.value.hint == "write it as HOST/NAME:TAG or HOST/NAME@sha256:DIGEST, as `docker pull` takes it"


@pytest.mark.parametrize(
    ("text", "lower"),
    [
        ("localhost:15055/ML/Train:1", "localhost:15055/ml/train:1"),
        ("ml.example/ml/ML:Tag", "ml.example/ml/ml:Tag"),
        (f"registry.example/X:V1@{DIGEST}", f"registry.example/x:V1@{DIGEST}"),
        ("Ubuntu:22.04", "ubuntu:22.04"),
        ("image:Debian/bookworm:1", "image:debian/bookworm:1"),
        ("Registry.example/X:1", "Registry.example/x:1"),
    ],
)
def test_a_name_in_capital_letters_is_refused_with_the_lower_one(text: str, lower: str) -> None:
    with pytest.raises(UsageError) as err:
        parse_reference(text)
    assert str(err.value) == (
        f"`base: {text!r}` is no reference to an image: the name of a repository has no capital letters"
    )
    assert err.value.hint == f"if it is this one: {lower}"
    parse_reference(err.value.hint.removeprefix("if it is this one: "))


def test_a_host_may_have_capital_letters() -> None:
    assert parse_reference("Registry.example/x:1").host == "Registry.example"


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
