"""Profiles as the host knows them: names, variables, and where a decision about them goes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dev.list_profiles import PAGE, renewed
from reprobuild.cli.overrides import make_decisions
from reprobuild.config.profiles import check_profile, read_profiles, suggest_profiles
from reprobuild.config.profiles import profile_variables as set_by
from reprobuild.errors import UsageError
from reprobuild.lock.system import EnvVar
from reprobuild.recipe.image_config import image_config
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers import env
from reprobuild.verify.roundtrip.compare import compare_environment
from tests.verify.samples import make_lock

NONE: dict[str, object] = {
    "python": None, "base": None, "platform": None, "sources": (), "services": (), "indexes": (), "archives": (),
    "debs": (), "channels": (), "bake": (), "drop": (), "accept": (), "seed": None, "profile": None,
    "build_image": None, "system": None, "packages": (), "as_of": None,
}  # fmt: skip


def test_the_profiles_of_the_issue_are_there() -> None:
    wanted = {"log-only", "torch", "strict", "megatron", "vllm", "tensorflow", "jax", "rocm", "npu"}
    assert wanted <= read_profiles().keys()


def test_variables_are_those_of_the_profile_and_what_it_includes() -> None:
    assert set_by("torch") == {"CUBLAS_WORKSPACE_CONFIG"}
    assert set_by("log-only") == set_by("no such") == frozenset()
    assert set_by("strict") > set_by("rocm") | set_by("npu") | set_by("torch")
    assert set_by("torch,jax") == {"CUBLAS_WORKSPACE_CONFIG", "XLA_FLAGS"}


def test_a_library_with_a_profile_of_its_own_is_suggested_until_it_is_in_force() -> None:
    (sentence,) = suggest_profiles({"megatron-core", "torch", "numpy"}, "torch")
    assert sentence.startswith("megatron-core has rules of its own")
    assert "`--profile megatron`" in sentence
    assert check_profile("megatron") == "megatron"
    assert suggest_profiles({"megatron-core", "torch"}, "megatron") == []
    assert suggest_profiles({"megatron-core"}, "strict,megatron") == []
    assert suggest_profiles({"torch", "jax", "numpy"}, "torch") == []


def test_the_page_has_the_tables_of_the_data() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), "run: python dev/list_profiles.py"
    entry = "| `CUBLAS_WORKSPACE_CONFIG` | `:4096:8`, also `:16:8` | C | torch |"
    assert entry in page
    assert renewed(page.replace(entry, "| `OTHER` |")) == page  # an old page is seen


def test_several_profiles_have_one_form() -> None:
    assert check_profile(" strict , fast,strict,") == "strict,fast"


@pytest.mark.parametrize(
    ("file", "option", "found"),
    [
        (None, None, None),
        ("strict", None, "strict"),
        (None, "strict", "strict"),
        ("strict", "torch", "torch"),  # the default's name, said as an option, is a decision, too
    ],
)
def test_the_option_goes_over_the_file(
    tmp_path: Path, file: str | None, option: str | None, found: str | None
) -> None:
    (tmp_path / "reprobuild.yaml").write_text(f"profile: {file}\n" if file else "seed: 1\n")
    decisions, _ = make_decisions(tmp_path / "snapshot", None, **{**NONE, "profile": option})
    assert decisions.profile == found


def test_an_option_that_is_no_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--profile: there is no profile 'quick'") as caught:
        make_decisions(tmp_path, None, **{**NONE, "profile": "quick"})
    assert caught.value.hint.startswith("name one of log-only, torch, ")


def test_the_image_says_its_profile_and_a_baked_one_goes_over_it() -> None:
    lock = make_lock(profile="strict,fast")
    assert "REPROBUILD_PROFILE=strict,fast" in image_config(lock).env
    baked = msgspec.structs.replace(lock, environment=(EnvVar(name="REPROBUILD_PROFILE", value="jax"),))
    assert "REPROBUILD_PROFILE=jax" in image_config(baked).env


@pytest.mark.parametrize(("profile", "strange"), [("torch", ["NCCL_ALGO"]), ("strict", [])])
def test_what_a_profile_sets_is_no_residue_of_the_round_trip(profile: str, strange: list[str]) -> None:
    lock = make_lock(profile=profile, environment=())
    variables, _ = env.parse(b"NCCL_ALGO=Ring\n")
    seen = Snapshot(digest="", variables=variables)
    assert [one.image for one in compare_environment(lock, seen)] == strange
