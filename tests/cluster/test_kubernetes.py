"""What is printed for Kubernetes is what its published schemas allow; what pods printed becomes certificates."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from reprobuild.cluster import kubernetes_collect
from reprobuild.cluster.aggregate import ClusterResult, gather_results
from reprobuild.cluster.aggregate import ExpectedImage as Wanted
from reprobuild.cluster.answer_table import AnswerTable
from reprobuild.cluster.kubernetes_job import KubernetesJob, job_manifest, parse_labels
from reprobuild.cluster.kubernetes_pods_json import INDEX, PODS, read_pods
from reprobuild.errors import UsageError
from reprobuild.image.model import Image
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.verify.check import check_seed
from tests.verify.samples import EXPECTED, SHA, changed, document, make_lock

RELEASES = ("1.33", "1.35", "1.37")
DIGEST = "sha256:" + "d" * 64
LOCK = make_lock(profile="torch", seed=7)
PROBE = "index_add"


def job(**more: Any) -> dict[str, Any]:
    asked = KubernetesJob(**{"image": "registry.example:5000/team/frozen:v1", "nodes": 64, **more})
    return job_manifest(asked, LOCK, DIGEST, EXPECTED, controls=True, thorough=False)


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
        ({"name": "A b"}, "is no name of a job", "use lower-case letters, digits and `-`, 52 at most"),
        *(({"namespace": bad}, "is no name of a namespace", "`kubectl get namespaces` lists them")
          for bad in ("A b", "a.b", "-a", "a-", "a" * 64)),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for_is_said(more: dict[str, Any], what: str, hint: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        job(**more)
    assert caught.value.hint == hint


@pytest.mark.parametrize("name", ["ml", "2026-team", "a", "a" * 63])
def test_each_name_of_a_namespace_is_taken(name: str) -> None:
    assert job(namespace=name)["metadata"]["namespace"] == name


def test_shared_memory_is_as_large_as_memory_and_the_image_may_need_a_secret() -> None:
    pod = job(gpus=8, pull_secrets=("of-us", "of.them"))["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    for each in [*pod["initContainers"], *pod["containers"]]:
        assert each["volumeMounts"] == [{"name": "shm", "mountPath": "/dev/shm"}]
    assert pod["imagePullSecrets"] == [{"name": "of-us"}, {"name": "of.them"}]
    assert "imagePullSecrets" not in job()["spec"]["template"]["spec"]


def test_labels_are_read_strictly() -> None:
    assert parse_labels(["pool=h100", "a.b/c="]) == {"pool": "h100", "a.b/c": ""}
    with pytest.raises(UsageError) as caught:
        parse_labels(["pool"])
    assert caught.value.hint == "for example: --node-selector pool=h100"


# --- what pods printed ------------------------------------------------------------------------


def spec(**more: Any) -> dict[str, Any]:
    """Return what the pods of our job are, as Kubernetes lists them."""
    return {**copy.deepcopy(job()["spec"]["template"]["spec"]), **more}


def plant(folder: Path, *, waits: bool = False, **nodes: dict[str, Any] | None) -> None:
    """Write what kubectl gives of pods that ran on nodes; None for a pod that printed nothing."""
    items = []
    for number, (node, first) in enumerate(nodes.items()):
        name = f"reprobuild-verify-{number}-abcde"
        phase = "Succeeded" if first else "Failed"
        items.append({
            "metadata": {"name": name, "annotations": {INDEX: str(number)}}, "spec": spec(nodeName=node),
            "status": {"phase": phase, **({} if first else {"reason": "DeadlineExceeded"})},
        })  # fmt: skip
        second = first and {**document(quick=True), **{key: first[key] for key in ("probes", "fingerprint")}}
        for turn, found in (("first", first), ("second", second)):
            if found:
                noise = f"Using seed: 7\n{json.dumps(found, indent=1)}\n"
                (folder / f"{name}.cpu-{turn}.log").write_text(noise)
    if waits:
        pending = {"name": "waits", "annotations": {INDEX: "99"}}
        items.append({"metadata": pending, "spec": spec(), "status": {"phase": "Pending"}})
    (folder / PODS).write_text(json.dumps({"items": items}))


def listed(folder: Path) -> list[dict[str, Any]]:
    """Return the pods of a list."""
    found: list[dict[str, Any]] = json.loads((folder / PODS).read_text())["items"]
    return found


def relist(folder: Path, items: list[dict[str, Any]]) -> None:
    (folder / PODS).write_text(json.dumps({"items": items}))


def three(folder: Path) -> list[dict[str, Any]]:
    """Plant three pods that answer alike, on the nodes a, b and c, and return their list."""
    plant(folder, a=document(), b=document(), c=document())
    return listed(folder)


def judged(folder: Path, nodes: int = 1, **more: Any) -> ClusterResult:
    image = Image(
        reference="r", layout="image", manifest=DIGEST, config=DIGEST, tree=f"sha256:{SHA}", lock=LOCK.digest, layers=1,
    )  # fmt: skip
    made = kubernetes_collect.write_certificates(
        folder, LOCK, image, EXPECTED, VerifyOptions(**more), now=0, nodes=nodes
    )
    return gather_results(
        made, Wanted(tree=f"sha256:{SHA}", seed=check_seed(LOCK), profile=LOCK.profile), AnswerTable(EXPECTED)
    )


def silent(found: ClusterResult) -> dict[str, str]:
    """Return the kinds of the nodes without an answer."""
    return {each.node: each.kind for each in found.silent}


def test_nodes_that_answer_alike_are_the_same_and_nobody_else_is_there(tmp_path: Path) -> None:
    three(tmp_path)
    found = judged(tmp_path, nodes=3)
    assert (found.verdict, found.exit_code, found.asked) == ("same", 0, ("a", "b", "c"))
    assert (found.strangers, found.silent, found.open) == ((), (), ())
    again = judged(tmp_path, nodes=3)
    assert (again.verdict, again.strangers) == ("same", ())


def test_what_pods_printed_is_judged_here_and_named_by_node(tmp_path: Path) -> None:
    right = document()
    wrong = changed(right, PROBE, digest="f" * 64)
    plant(tmp_path, waits=True, a=right, b=wrong, c=right, d=None)
    found = judged(tmp_path)
    assert found.verdict == "differ"
    assert [(each.node, each.answer) for each in found.groups[0].odd] == [("b", f"{PROBE} (strict)")]
    assert silent(found) == {"d": "refused", "index_99": "absent"}
    assert "DeadlineExceeded" in found.silent[0].why


def test_pods_that_left_no_trace_are_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, waits=True, a=document(), b=document(), c=document())
    found = judged(tmp_path, nodes=5)
    assert (found.verdict, found.exit_code) == ("inconclusive", 9)
    assert silent(found) == dict.fromkeys(("index_3", "index_4", "index_99"), "absent")


@pytest.mark.parametrize("node", ["index-3", "pods", "nodes", "collectives-cpu", "verdicts", "a.json"])
def test_no_name_of_a_node_stands_for_anything_else(node: str, tmp_path: Path) -> None:
    items = three(tmp_path)
    items[2]["spec"]["nodeName"] = node
    relist(tmp_path, items)
    found = judged(tmp_path, nodes=3)
    assert (found.verdict, found.asked, found.strangers) == ("same", tuple(sorted(("a", "b", node))), ())
    found = judged(tmp_path, nodes=4)
    assert (found.exit_code, silent(found)) == (9, {"index_3": "absent"})


@pytest.mark.parametrize("length", [200, 201, 240, 253])
def test_a_long_name_of_a_node_loses_nobody(length: int, tmp_path: Path) -> None:
    items = three(tmp_path)
    for number in (1, 2):
        items[number]["spec"]["nodeName"] = "x" * (length - 1) + str(number)
    relist(tmp_path, items)
    found = judged(tmp_path, nodes=3)
    assert (found.verdict, len(found.asked), found.strangers) == ("same", 3, ())


@pytest.mark.parametrize(
    ("place", "value", "name", "why"),
    [
        (("spec", "nodeName"), "x" * 254, "index_1", "is no name of a node"),
        (("spec", "nodeName"), "../b", "index_1", "is no name of a node"),
        (("spec", "nodeName"), "index_2", "index_1", "is no name of a node"),
        (("metadata", "name"), "../x", "b", "its name is none of a pod of the job"),
        (("metadata", "name"), "x" * 253, "b", "its name is none of a pod of the job"),
        (("metadata", "annotations"), {}, "b", "it has no number in the job"),
        (("metadata", "annotations"), {INDEX: "01"}, "b", "it has no number in the job"),
    ],
)
def test_a_name_that_is_none_loses_nobody_else(
    place: tuple[str, str], value: object, name: str, why: str, tmp_path: Path
) -> None:
    items = three(tmp_path)
    items[1][place[0]][place[1]] = value
    relist(tmp_path, items)
    found = judged(tmp_path, nodes=3)
    assert (found.verdict, found.groups[0].nodes) == ("inconclusive", ("a", "c"))
    assert silent(found)[name] == "refused"
    assert why in next(each.why for each in found.silent if each.node == name)


def test_of_two_pods_on_one_node_one_counts_and_the_number_of_the_other_was_not_reached(
    tmp_path: Path,
) -> None:
    items = three(tmp_path)
    items[1]["spec"]["nodeName"] = "a"
    relist(tmp_path, items)
    found = judged(tmp_path, nodes=3)
    assert (found.verdict, found.exit_code, found.groups[0].nodes) == ("inconclusive", 9, ("a", "c"))
    assert silent(found) == {"index_1": "refused"}
    why = "it ran on a, as reprobuild-verify-0-abcde did, and so another node was not asked"
    assert found.silent[0].why == f"pod reprobuild-verify-1-abcde: {why}"


def test_of_two_pods_on_one_node_the_one_that_answered_counts(tmp_path: Path) -> None:
    plant(tmp_path, a=None, b=document(), c=document())
    items = listed(tmp_path)
    items[1]["spec"]["nodeName"] = "a"
    relist(tmp_path, items)
    found = judged(tmp_path, nodes=3)
    assert (found.groups[0].nodes, silent(found)) == (("a", "c"), {"index_0": "refused"})


def test_a_node_that_differs_is_named_though_another_had_two_pods(tmp_path: Path) -> None:
    right = document()
    plant(tmp_path, a=right, b=changed(right, PROBE, digest="f" * 64), c=right, d=right)
    items = listed(tmp_path)
    items[3]["spec"]["nodeName"] = "a"
    relist(tmp_path, items)
    found = judged(tmp_path, nodes=4)
    assert (found.exit_code, [each.node for each in found.groups[0].odd]) == (8, ["b"])


# --- pods of something else --------------------------------------------------------------------

ASKED = "it was asked otherwise: name the --probe, --no-controls and --thorough of the job"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"image": "registry.example:5000/team/frozen@sha256:" + "0" * 64}, "it ran another image: registry.example"),
        ({"image": "registry.example:5000/team/frozen:v1"}, "it ran another image: registry.example"),
        ({"image": ""}, "it ran another image: none is told"),
        ({"args": ["/bin/cat", "/answer"]}, ASKED),
        ({"args": []}, ASKED),
        ({"command": ["/bin/sh", "-c", "cat /answer"]}, ASKED),
        ({"env": [{"name": "REPROBUILD_SEED", "value": "8"}]}, ASKED),
        ({"env": []}, ASKED),
        ({"name": "other"}, "it has not the containers of the job"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("turn", [0, 1])
def test_a_pod_of_something_else_is_not_counted(
    turn: int, change: dict[str, Any], why: str, tmp_path: Path
) -> None:
    items = three(tmp_path)
    of_b = items[1]["spec"]
    [*of_b["initContainers"], *of_b["containers"]][turn].update(change)
    relist(tmp_path, items)
    found = judged(tmp_path, nodes=3)
    assert (found.verdict, found.exit_code, found.groups[0].nodes) == ("inconclusive", 9, ("a", "c"))
    assert silent(found) == {"b": "refused"}
    assert why in found.silent[0].why


def test_a_whole_job_of_another_image_is_no_answer(tmp_path: Path) -> None:
    items = three(tmp_path)
    relist(tmp_path, json.loads(json.dumps(items).replace(DIGEST, "sha256:" + "0" * 64)))
    found = judged(tmp_path, nodes=3)
    assert (found.exit_code, found.groups, silent(found)) == (9, (), dict.fromkeys("abc", "refused"))


@pytest.mark.parametrize("more", [{"probes": (PROBE,)}, {"controls": False}, {"thorough": True}])
def test_a_job_of_other_options_is_no_answer(more: dict[str, Any], tmp_path: Path) -> None:
    three(tmp_path)
    found = judged(tmp_path, nodes=3, **more)
    assert (found.exit_code, found.groups) == (9, ())
    assert {each.why.partition(": ")[2] for each in found.silent} == {ASKED}


def test_what_a_cluster_puts_beside_our_containers_is_its_affair(tmp_path: Path) -> None:
    items = three(tmp_path)
    for each in items:
        each["spec"]["containers"].append(
            {"name": "mesh", "image": "mesh.example.org/proxy:1", "args": ["serve"]}
        )
        each["spec"]["containers"][0]["env"].append(
            {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {}}}
        )
    relist(tmp_path, items)
    assert judged(tmp_path, nodes=3).verdict == "same"


def test_a_pod_left_of_an_older_job_takes_no_place(tmp_path: Path) -> None:
    items = three(tmp_path)
    old = json.loads(json.dumps(items[0]).replace(DIGEST, "sha256:" + "0" * 64).replace("abcde", "old"))
    for order in ([old, *items], [*items, old]):
        relist(tmp_path, order)
        found = judged(tmp_path, nodes=3)
        assert (found.groups[0].nodes, silent(found)) == (("a", "b", "c"), {"index_0": "refused"})
        assert found.silent[0].why.startswith("pod reprobuild-verify-0-old: it ran another image: ")
    relist(tmp_path, [old, {**old, "spec": spec(nodeName="")}, *items, old])
    assert len(judged(tmp_path, nodes=3).silent) == 3


def test_a_pod_that_was_started_again_counts_once(tmp_path: Path) -> None:
    items = three(tmp_path)
    first = json.loads(json.dumps(items[1]).replace("abcde", "first"))
    first["status"] = {"phase": "Failed", "reason": "Evicted"}
    first["spec"]["nodeName"] = "z"
    for order in ([first, *items], [*items, first]):
        relist(tmp_path, order)
        found = judged(tmp_path, nodes=3)
        assert (found.verdict, found.asked) == ("same", ("a", "b", "c"))


def test_an_image_for_gpus_passes_by_its_processor_where_that_is_said_to_be_enough(tmp_path: Path) -> None:
    found = document()
    found["fingerprint"] = {**found["fingerprint"], "cuda_build": True}
    plant(tmp_path, a=found, b=found)
    open_one = judged(tmp_path, nodes=2)
    assert (open_one.exit_code, [each.why for each in open_one.open]) == (
        9,
        ["collectives: not-covered", "gpu: not-covered"],
    )
    assert judged(tmp_path, nodes=2, cpu_only=True).verdict == "same"


def test_a_number_that_was_run_twice_hides_no_answer(tmp_path: Path) -> None:
    right = document()
    plant(tmp_path, a=right, b=right, c=right, d=changed(right, PROBE, digest="f" * 64))
    items = listed(tmp_path)
    items[3]["metadata"]["annotations"][INDEX] = "2"
    for order in (items, items[::-1]):
        relist(tmp_path, order)
        found = judged(tmp_path, nodes=3)
        assert (found.exit_code, [each.node for each in found.groups[0].odd]) == (8, ["d"])


def test_a_log_without_a_document_is_no_answer(tmp_path: Path) -> None:
    three(tmp_path)
    (tmp_path / "reprobuild-verify-1-abcde.cpu-first.log").write_bytes(b"Killed\n\x1b[2J{\n")
    found = judged(tmp_path)
    assert silent(found) == {"b": "refused"}
    assert "the log of its container holds no document" in found.silent[0].why


def test_a_pod_whose_logs_were_not_brought_is_no_answer(tmp_path: Path) -> None:
    three(tmp_path)
    (tmp_path / "reprobuild-verify-1-abcde.cpu-second.log").unlink()
    found = judged(tmp_path)
    assert [(each.node, each.kind, each.why) for each in found.silent] == [
        ("b", "refused", "pod reprobuild-verify-1-abcde came to its end, and its logs are not here")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"items": 3}',
        '{"items": [{"metadata": {"name": "x"}, "spec": null}]}',
        '{"items": [{"metadata": {}, "spec": {}}]}',
        '{"items": []}',
        "[" * 9999,
    ],
)
def test_what_is_no_list_of_pods_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / PODS).write_text(text)
    with pytest.raises(UsageError) as caught:
        judged(tmp_path)
    hint = "fill the directory with the commands that `reprobuild cluster job` prints; docs/cluster.md has them, too"
    assert caught.value.hint == hint


def test_a_list_that_is_no_plain_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / PODS)
    with pytest.raises(UsageError, match=r"pods\.json cannot be read: it is no plain file"):
        read_pods(tmp_path / PODS)
    (tmp_path / "link.json").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="cannot be read"):
        read_pods(tmp_path / "link.json")


@pytest.mark.parametrize(("bound", "most"), [("LARGEST", 900), ("MOST_OBJECTS", 20), ("MOST_VALUES", 20)])
def test_a_list_of_pods_is_bounded(
    bound: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small pods and containers took twelve times their bytes in memory."""
    item = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "b"}, {"name": "c"}]}}
    (tmp_path / PODS).write_text(json.dumps({"items": [item] * 12}))
    assert len(read_pods(tmp_path / PODS)) == 12
    monkeypatch.setattr(f"reprobuild.cluster.kubernetes_pods_json.{bound}", most)
    with pytest.raises(UsageError, match="more than") as caught:
        read_pods(tmp_path / PODS)
    assert (
        caught.value.hint
        == "save the pods of one job alone, with the command that `reprobuild cluster job` prints"
    )


def test_values_in_the_arguments_of_containers_are_no_values_of_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = json.dumps({f"probe {number}": {"a": "b"} for number in range(500)})
    item = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "b", "args": [arguments]}]}}
    (tmp_path / PODS).write_text(json.dumps({"items": [item]}))
    for bound in ("MOST_OBJECTS", "MOST_VALUES"):
        monkeypatch.setattr(f"reprobuild.cluster.kubernetes_pods_json.{bound}", 600)
    assert len(read_pods(tmp_path / PODS)) == 1


def test_a_log_that_is_no_plain_file_is_no_answer(tmp_path: Path) -> None:
    plant(tmp_path, a=document(), b=document())
    path = tmp_path / "reprobuild-verify-1-abcde.cpu-first.log"
    assert path.exists()
    path.unlink()
    os.mkfifo(path)
    assert [each.node for each in judged(tmp_path).silent] == ["b"]
    with pytest.raises(OSError, match="no plain file"):
        kubernetes_collect._read_log(path, "cpu")


def test_a_folder_without_pods_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*pods\.json"):
        judged(tmp_path)
