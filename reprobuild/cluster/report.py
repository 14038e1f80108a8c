"""The result of a cluster check, as JSON and HTML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from reprobuild.cluster.aggregate import ClusterResult, list_deviating_nodes
from reprobuild.cluster.answer_table import escape_text
from reprobuild.cluster.collectives_judge import attribute_drift
from reprobuild.cluster.text import (
    MET,
    SILENT,
    collectives_title,
    consequence_line,
    list_lacking_nodes,
    platform_title,
    result_lines,
    unprobed_note,
)
from reprobuild.context import RunContext
from reprobuild.errors import UsageError
from reprobuild.image.model import Image
from reprobuild.infra.atomic import write_file
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.model import Lock
from reprobuild.output.directory import (
    CLUSTER_RESULT,
    REPORT,
    VERDICT,
    engine_name,
    is_document_of_here,
    remember_document,
)
from reprobuild.pipeline.report import write_report
from reprobuild.report.html.cluster import Met, Nodes, OutlierRow, Peers
from reprobuild.verify.certificate.read import LARGEST, read_verdict

_LARGEST = 256 << 20  # of thousands of nodes


def write_cluster_result(
    lock: Lock, image: Image, out: Path, context: RunContext, cluster: ClusterResult
) -> None:
    """Write OUT/cluster.json, and the nodes on the page.

    The page is OUT/report.html. A failure to write is logged, and raises no error.
    """
    try:
        document = msgspec.json.format(msgspec.json.encode(cluster)) + b"\n"
        write_file(out / CLUSTER_RESULT, document)
        remember_document(CLUSTER_RESULT, image, document, context.store)
    except OSError as err:
        context.say(f"warning: {CLUSTER_RESULT} is not written: {err}")
    _write_page(lock, image, out, context, cluster)


def read_nodes(lock: Lock, image: Image, out: Path, context: RunContext) -> Nodes | None:
    """Return the nodes of OUT/cluster.json for the page, or None.

    They are returned only if that file is of this image and was written here. The answers of the nodes are not read
    again: another party could have exchanged them since. A failure is logged, and raises no error.
    """
    try:
        document = read_plain(out / CLUSTER_RESULT, _LARGEST, links=False)
        if not is_document_of_here(CLUSTER_RESULT, image, document, context.store):
            context.say(f"warning: the nodes are not on {REPORT}: {CLUSTER_RESULT} was not written here")
            return None
        cluster = decode_json(document, ClusterResult)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as err:
        context.say(f"warning: the nodes are not on {REPORT}: {CLUSTER_RESULT}: {escape_text(str(err))}")
        return None
    return render_nodes(cluster) if cluster.tree == image.tree else None


def _write_page(lock: Lock, image: Image, out: Path, context: RunContext, cluster: ClusterResult) -> None:
    """Write the page and the badge if OUT has a verdict on this image, and a check here made it.

    Otherwise they stay as they are.
    """
    try:
        document = read_plain(out / VERDICT, LARGEST, links=False)
        verdict = read_verdict(document, out / VERDICT)
        if verdict.image != image.manifest:
            return
        if not is_document_of_here(VERDICT, image, document, context.store):
            again = f"`reprobuild verify {quote_path(out)}` makes your own"
            context.say(f"warning: {REPORT} is not written again: no check here made {VERDICT}; {again}")
            return
        name = engine_name(lock, image, out, context.store, context.say)
        write_report(lock, image, verdict, out, name, context.store, render_nodes(cluster))
    except FileNotFoundError:
        return
    except (UsageError, OSError) as err:  # the nodes' result and the exit code do not depend on it
        context.say(f"warning: {REPORT} is not written again: {err}")


def render_nodes(cluster: ClusterResult) -> Nodes:
    """Return the part of a cluster's result for the page."""
    wrong = [
        OutlierRow(node=node, said=f"drifts, or differs from {len(group.nodes) - 1} of its platform, on "
            f"{group.device}, in {len(answers)} answers", answers=tuple(answers))
        for node, group, answers in list_deviating_nodes(cluster)
    ]  # fmt: skip
    for group in cluster.groups:
        parted: dict[str, list[str]] = {}
        for split in group.parted:
            for name in (name for names in split.sides.values() for name in names):
                parted.setdefault(name, []).append(split.answer)
        text = f"differs on {group.device} from others of its platform, and which is right is not known"
        wrong += [
            OutlierRow(node=name, said=text, answers=tuple(answers)) for name, answers in parted.items()
        ]
    drifting_nodes = {
        missing_node.node for missing_node in cluster.silent if missing_node.kind == "drifts"
    }  # that is an answer, and a bad one
    silent = [
        OutlierRow(node=missing_node.node, said=f"{SILENT[missing_node.kind]}: {missing_node.why}")
        for missing_node in cluster.silent
    ]
    wrong += [row for row in silent if row.node in drifting_nodes]
    wrong += _drifting_rows(cluster)
    groups = tuple(
        Peers(
            device=group.device,
            title=platform_title(group),
            nodes=group.nodes,
            compared=group.compared,
            platform=group.platform,
        )
        for group in cluster.groups
    )
    notes = [f"{', '.join(question.nodes)}: {question.why}" for question in cluster.open]
    notes += [
        f"{name} on {group.device} is not compared: it drifts with the image's profile on {', '.join(names)}"
        for group in cluster.groups
        for name, names in group.loose.items()
    ]
    notes += [
        f"collectives on {result.device}: {consequence_line(result)}"
        for result in cluster.collectives
        if attribute_drift(result)[1]
    ]
    notes += [more for group in cluster.groups if (more := unprobed_note(group))]
    notes += [f"{name}: answered, and was not asked; it is not counted" for name in cluster.strangers]
    notes += [
        f"across the groups on {difference.device}, {len(difference.answers)} of {difference.compared} answers "
        "differ, as is expected"
        for difference in cluster.across
    ]
    return Nodes(
        verdict=cluster.verdict, asked=len(cluster.asked), wrong=tuple(wrong), lacking=tuple(_lacking_rows(cluster)),
        groups=groups,
        silent=tuple(row for row in silent if row.node not in drifting_nodes),
        notes=(*notes, *map(escape_text, cluster.notes)),
        collectives=tuple(
            Met(title=collectives_title(result), verdict=MET[result.verdict], said=tuple(result_lines(result)))
            for result in cluster.collectives
        ) or (Met(title="collectives between nodes", verdict=MET["not-run"], said=()),),
        made=escape_text(cluster.made), folder=escape_text(cluster.folder),
    )  # fmt: skip


def _drifting_rows(cluster: ClusterResult) -> Iterator[OutlierRow]:
    """Yield the nodes that drifting collectives name, with the collectives."""
    for result in cluster.collectives:
        collectives: dict[tuple[str, str], list[str]] = {}
        for drift in attribute_drift(result)[0]:
            fault = "is not the same each time" if drift.kind == "runs" else "is other than on most nodes"
            if not drift.settled:
                fault = "is not the same on all ranks, and which is right is not known"
            for name in drift.nodes:
                collectives.setdefault((name, fault), []).append(drift.collective)
        for (name, fault), names in collectives.items():
            text = f"what it holds after collectives between nodes on {result.device} {fault}"
            yield OutlierRow(node=name, said=text, answers=tuple(names))


def _lacking_rows(cluster: ClusterResult) -> Iterator[OutlierRow]:
    """Yield the nodes that lack their peers' answers."""
    for group in cluster.groups:
        absent: dict[str, list[str]] = {}
        for nodes, answers in list_lacking_nodes(group):
            for name in nodes:
                absent.setdefault(name, []).extend(answers)
        text = f"has no answer on {group.device}, where others of its platform have one"
        yield from (
            OutlierRow(node=name, said=text, answers=tuple(answers)) for name, answers in absent.items()
        )
