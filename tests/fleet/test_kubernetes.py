"""What is printed for Kubernetes is what its published schemas allow; what pods printed becomes certificates."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from reprobuild.errors import UsageError
from reprobuild.fleet import pods
from reprobuild.fleet.answers import Table
from reprobuild.fleet.gathering import Fleet, gather
from reprobuild.fleet.gathering import Image as Wanted
from reprobuild.fleet.kubernetes import Job, manifest, selector
from reprobuild.image.build import Image
from reprobuild.verify.check import seed_of
from tests.verify.samples import EXPECTED, changed, document, make_lock

RELEASES = ("1.33", "1.35", "1.37")
DIGEST = "sha256:" + "d" * 64
LOCK = make_lock(profile="torch", seed=7)
PROBE = "index_add"


def job(**more: Any) -> dict[str, Any]:
    asked = Job(**{"image": "registry.example:5000/team/frozen:v1", "nodes": 64, **more})
    return manifest(asked, LOCK, DIGEST, EXPECTED, controls=True, thorough=False)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"gpus": 8, "namespace": "ml", "selector": {"pool": "h100"}},
        {"nodes": 1, "retries": 2, "pull_secrets": ("of-us",)},
    ],
    ids=["cpu", "gpu", "one"],
)
def test_the_published_schemas_allow_it(release: str, more: dict[str, Any]) -> None:
    made = json.loads(json.dumps(job(**more)))
    assert kubernetes_validate.validate(made, release, strict=True) == release


@pytest.mark.parametrize("release", RELEASES)
def test_the_schemas_refuse_what_is_not_in_them(release: str) -> None:
    """The control: a word that no release has, and a number that must be one."""
    for place, value in (("completionMoed", "Indexed"), ("completions", "sixty-four")):
        made = copy.deepcopy(job())
        made["spec"][place] = value
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(made, release, strict=True)


def test_each_node_gets_one_pod_whose_containers_are_the_questions_of_verify() -> None:
    made = job(gpus=8)
    spec = made["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 64, 64)
    pod = spec["template"]["spec"]
    (spread,) = pod["topologySpreadConstraints"]
    assert (spread["maxSkew"], spread["minDomains"], spread["whenUnsatisfiable"]) == (1, 64, "DoNotSchedule")
    assert spread["labelSelector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    containers = [*pod["initContainers"], *pod["containers"]]
    assert [each["name"] for each in containers] == ["cpu-first", "cpu-second", "cuda-first", "cuda-second"]
    assert {each["image"] for each in containers} == {f"registry.example:5000/team/frozen@{DIGEST}"}
    assert [each.get("resources") for each in containers] == [
        None,
        None,
        *[{"limits": {"nvidia.com/gpu": 8}}] * 2,
    ]
    asked = [json.loads(each["args"][2]) for each in containers]
    assert [(each["device"], each.get("quick", False), each["seed"]) for each in asked] == [
        ("cpu", False, 7), ("cpu", True, 7), ("cuda", False, 7), ("cuda", True, 7),
    ]  # fmt: skip
    assert spec["activeDeadlineSeconds"] > pod["activeDeadlineSeconds"] == 1800


@pytest.mark.parametrize(
    ("more", "what", "hint"),
    [
        ({"image": "-x y"}, "is no repository", "name the one that `reprobuild push` wrote to: HOST/NAME"),
        ({"pull_secrets": ("-A",)}, "is no name of a secret", "`kubectl get secrets` lists them"),
        ({"nodes": 0}, "how many nodes", "add --nodes N"),
        ({"namespace": "A b"}, "is no name of Kubernetes", "use lower-case letters, digits and `-`, 52 at most"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for_is_said(more: dict[str, Any], what: str, hint: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        job(**more)
    assert caught.value.hint == hint


def test_shared_memory_is_as_large_as_memory_and_the_image_may_need_a_secret() -> None:
    pod = job(gpus=8, pull_secrets=("of-us", "of.them"))["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    for each in [*pod["initContainers"], *pod["containers"]]:
        assert each["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
    assert pod["imagePullSecrets"] == [{"name": "of-us"}, {"name": "of.them"}]
    assert "imagePullSecrets" not in job()["spec"]["template"]["spec"]


def test_labels_are_read_strictly() -> None:
    assert selector(["pool=h100", "a.b/c="]) == {"pool": "h100", "a.b/c": ""}
    with pytest.raises(UsageError) as caught:
        selector(["pool"])
    assert caught.value.hint == "for example: --node-label pool=h100"


# --- what pods printed ------------------------------------------------------------------------


def plant(folder: Path, **nodes: dict[str, Any] | None) -> None:
    """Write what kubectl gives of pods that ran on nodes; None for a pod that printed nothing."""
    items = []
    for number, (node, first) in enumerate(nodes.items()):
        name = f"reprobuild-verify-{number}-abcde"
        phase = "Succeeded" if first else "Failed"
        items.append({
            "metadata": {"name": name, "annotations": {pods.INDEX: str(number)}}, "spec": {"nodeName": node},
            "status": {"phase": phase, **({} if first else {"reason": "DeadlineExceeded"})},
        })  # fmt: skip
        second = first and {**document(quick=True), "probes": first["probes"]}
        for turn, found in (("first", first), ("second", second)):
            if found:
                noise = f"Using seed: 7\n{json.dumps(found, indent=1)}\n"
                (folder / f"{name}.cpu-{turn}.log").write_text(noise)
    waits = {"name": "waits", "annotations": {pods.INDEX: "99"}}
    items.append({"metadata": waits, "spec": {}, "status": {"phase": "Pending"}})
    (folder / "pods.json").write_text(json.dumps({"items": items}))


def judged(folder: Path, nodes: int = 1) -> Fleet:
    image = Image(
        reference="r", layout="image", manifest=DIGEST, config=DIGEST, tree="sha256:1", lock=LOCK.digest, layers=1,
    )  # fmt: skip
    pods.certificates(
        folder, LOCK, image, EXPECTED, controls=True, thorough=False, probes=(), now=0, nodes=nodes
    )
    return gather(folder, Wanted(tree="sha256:1", seed=seed_of(LOCK), profile=LOCK.profile), Table(EXPECTED))


def test_what_pods_printed_is_judged_here_and_named_by_node(tmp_path: Path) -> None:
    right = document()
    wrong = changed(right, PROBE, digest="f" * 64)
    plant(tmp_path, a=right, b=wrong, c=right, d=None)
    found = judged(tmp_path)
    assert found.verdict == "differ"
    assert [(each.node, each.answer) for each in found.groups[0].odd] == [("b", f"{PROBE} (strict)")]
    assert {each.node: each.kind for each in found.silent} == {"d": "refused", "index-99": "absent"}
    assert "DeadlineExceeded" in found.silent[0].why


def test_pods_that_left_no_trace_are_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, a=document(), b=document(), c=document())
    found = judged(tmp_path, nodes=5)
    absent = {each.node for each in found.silent if each.kind == "absent"}
    assert (found.verdict, absent) == ("inconclusive", {"index-3", "index-4", "index-99"})


def test_two_pods_on_one_node_are_refused(tmp_path: Path) -> None:
    plant(tmp_path, a=document(), b=document())
    listed = tmp_path / pods.PODS
    listed.write_text(listed.read_text().replace('"nodeName": "b"', '"nodeName": "a"'))
    with pytest.raises(UsageError, match=r"0-abcde and reprobuild-verify-1-abcde were both on a$") as caught:
        judged(tmp_path)
    hint = "one pod on each node is needed: delete the job, and apply it again as it is printed"
    assert caught.value.hint == hint


def test_how_many_pods_there_were_to_be_must_be_told(tmp_path: Path) -> None:
    plant(tmp_path, a=document(), b=document())
    with pytest.raises(UsageError, match="how many nodes were asked is not told") as caught:
        judged(tmp_path, nodes=0)
    assert caught.value.hint == "add the --nodes N of the job"


def test_a_log_without_a_document_is_no_answer(tmp_path: Path) -> None:
    plant(tmp_path, a=document(), b=document(), c=document())
    (tmp_path / "reprobuild-verify-1-abcde.cpu-first.log").write_bytes(b"Killed\n\x1b[2J{\n")
    found = judged(tmp_path)
    assert [(each.node, each.kind) for each in found.silent] == [("b", "refused"), ("index-99", "absent")]
    assert "the log of its container holds no document" in found.silent[0].why


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"items": 3}',
        '{"items": [{"metadata": {"name": "../x"}, "spec": {}}]}',
        '{"items": []}',
        "[" * 9999,
    ],
)
def test_what_is_no_list_of_pods_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(text)
    with pytest.raises(UsageError) as caught:
        judged(tmp_path)
    assert caught.value.hint == "docs/fleets.md has the two commands of kubectl that fill it"


def test_a_folder_without_pods_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*pods\.json"):
        judged(tmp_path)
