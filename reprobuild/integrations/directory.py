"""The name of the snapshot's directory beside the outputs of a run."""

NAME = "reprobuild-snapshot"
