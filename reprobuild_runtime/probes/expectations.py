"""torch's own documentation of deterministic operations.

It is read from the torch in the image.

The list changes with each release (2.6: 20 deterministic and 29 refused; 2.14: 25 and 24), so it is not stored here.
Undocumented alerts are in `alerts.json`, with the version of the source that they were read from.
https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html
"""

import json
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

# torch's own text if it refuses (aten/src/ATen/Context.cpp, alertNotDeterministic), or leaves a kernel out
# (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, check_cudnn_deterministic).
_ALERT = re.compile(
    r"(.{1,200}?) (?:does not have a deterministic implementation|is not deterministic\.)", re.DOTALL
)
_ITEM = re.compile(r"\* :(?:class|func|meth|attr):`~?([\w.]+)`\s*(.*)", re.DOTALL)
_HEADS = {"will act": "deterministic", "will throw": "refused"}


def read(text: "Optional[str]") -> "Dict[str, Any]":
    """Return {"source", "deterministic", "refused"} of a documentation.

    The lists are empty without a documentation.
    """
    table: "Dict[str, Any]" = {
        "source": "torch.use_deterministic_algorithms.__doc__",
        "deterministic": [],
        "refused": [],
    }
    if not text:
        table["source"] = ""
        return table
    under = ""
    for paragraph in _split_paragraphs(text):
        joined = " ".join(paragraph.split())
        for words, name in _HEADS.items():
            if words in joined and joined.startswith("The following"):
                under = name
        item = _ITEM.match(joined)
        if item and under:
            table[under].append(" ".join(item.groups()).replace("`", "").replace(":class:", "").strip())
        elif under and not item and joined.startswith("In addition"):
            under = ""
    return table


def _split_paragraphs(text: str) -> "List[str]":
    """Return paragraphs and list items.

    The items of a list below an item are a part of it.
    """
    parts: "List[str]" = []
    fresh = True
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped:
            fresh = True
        elif stripped.startswith("- ") and parts:
            parts[-1] += " " + stripped[2:]
            fresh = False
        elif fresh or stripped.startswith("* "):
            parts.append(stripped)
            fresh = False
        else:
            parts[-1] += " " + stripped
    return parts


def find_documentation(table: "Dict[str, Any]", lines: "Sequence[Tuple[str, ...]]", device: str) -> str:
    """Return the documentation of a probe on a device.

    It is `refused`, `deterministic` or `none`.
    """
    for verdict in ("refused", "deterministic"):
        if any(_concerns_device(entry, line, device) for entry in table[verdict] for line in lines):
            return verdict
    return "none"


def _concerns_device(entry: str, line: "Tuple[str, ...]", device: str) -> bool:
    name, _, when = entry.partition(" ")
    if name != line[0] or not all(word in when for word in line[1:]):
        return False
    here = "CPU" if device == "cpu" else "CUDA"
    return here in when or not ("CPU" in when or "CUDA" in when)


def find_alert_operation(message: str) -> str:
    """Return the operation in torch's own alert, else an empty text.

    The alert is about a missing deterministic implementation.
    """
    match = _ALERT.search(message)
    return match.group(1).strip() if match else ""


def undocumented() -> "Dict[str, Any]":
    """Return {"torch": version, "alerts": [names]} of this program's list.

    The version is that of the list's source.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "alerts.json")
    with open(path, encoding="utf-8") as file:
        data: "Dict[str, Any]" = json.load(file)
    return data
