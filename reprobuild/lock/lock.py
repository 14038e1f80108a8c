"""The lock: inputs by sha256, decisions, canonical form and digest.

A lock is *sealed* if `realised` is set: the required programs were run once, and their outputs are inputs.
"""

from reprobuild.lock.consistent import readable
from reprobuild.lock.distributions import (
    distributions,
    environment_wheels,
)
from reprobuild.lock.fields import SILENT, FieldChange, field_changes
from reprobuild.lock.file import (
    VERSION,
    read_lock,
    write_lock,
    write_new_lock,
)
from reprobuild.lock.model import (
    OF_NO_LINE,
    Built,
    Bytecode,
    Lock,
    Outcome,
    Realised,
    Ruling,
    Workload,
    canonical,
    encode,
)
from reprobuild.lock.python import (
    Building,
    CondaPackage,
    Interpreter,
    Sdist,
    Source,
    Wheel,
)
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.requirements import (
    absent,
    conflicts,
    in_short,
    read_requirement,
)
from reprobuild.lock.system import (
    EPOCH,
    FILES,
    PREFIX,
    STANDALONE,
    Artefact,
    Base,
    BaseImage,
    Deb,
    ImageBlob,
    ImageLayer,
    InheritedSetting,
    Installed,
    Setting,
    dpkg_name,
)

__all__ = [
    "EPOCH",
    "FILES",
    "OF_NO_LINE",
    "PREFIX",
    "SILENT",
    "STANDALONE",
    "VERSION",
    "Artefact",
    "Base",
    "BaseImage",
    "Building",
    "Built",
    "Bytecode",
    "CondaPackage",
    "Deb",
    "FieldChange",
    "ImageBlob",
    "ImageLayer",
    "InheritedSetting",
    "Installed",
    "Interpreter",
    "Lock",
    "Outcome",
    "Realised",
    "RecordedDecisions",
    "Ruling",
    "Sdist",
    "Setting",
    "Source",
    "Wheel",
    "Workload",
    "absent",
    "canonical",
    "conflicts",
    "distributions",
    "dpkg_name",
    "encode",
    "environment_wheels",
    "field_changes",
    "in_short",
    "read_lock",
    "read_requirement",
    "readable",
    "write_lock",
    "write_new_lock",
]
