"""Importer of a training job of Amazon SageMaker: the JSON of `aws sagemaker describe-training-job`.

Format: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html
"""

from __future__ import annotations

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.exports import find_export
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.requirement_files import add_lists
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table
from reprobuild.snapshot.importers.variables import ENVIRONMENT, add_variables

_REASONS = {
    "HyperParameters": "hyperparameters of the run", "InputDataConfig": "addresses of data, without hashes",
    "RoleArn": "it names a person or a machine", "ResourceConfig": "the machines of the run",
    "TrainingJobName": "a name of the run", "TrainingJobArn": "it names a person or a machine",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is such a JSON file, or has one at its top."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a job: its variables, the requirements.txt beside the JSON, and the name of its image.

    Raises:
        SnapshotError: it is damaged, or names neither variables nor packages.
    """
    file = _file(source)
    assert file is not None
    document = load_document(source, file)
    draft = Draft("SageMaker training job", file)
    started = "TrainingStartTime" if document.get("TrainingStartTime") else "CreationTime"
    draft.start(document.get(started), started)
    add_variables(draft, table(document, "Environment"), "Environment")
    algorithm = table(document, "AlgorithmSpecification")
    image = display_text(string(algorithm, "TrainingImage"))
    draft.leave("AlgorithmSpecification.TrainingImage", f"the job ran in {image}: `--base` can take it")
    draft.leave_rest(document, ("AlgorithmSpecification", "Environment", started), _REASONS)
    draft.leave_rest(algorithm, ("TrainingImage",), {})
    if source.has(REQUIREMENTS):
        add_lists(draft, source, REQUIREMENTS, without_home)
        draft.source = file
    elif not draft.has(ENVIRONMENT):
        raise SnapshotError(
            f"{display_text(file)} names only the image {image}",
            hint="run `pip freeze > requirements.txt` in that image, put it beside the file, and import the directory",
        )
    return draft


def _file(source: ImportSource) -> str | None:
    return find_export(source, "TrainingJobName", "AlgorithmSpecification", "CreationTime")
