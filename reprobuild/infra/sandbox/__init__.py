"""A command in a root directory without network."""

from __future__ import annotations

from reprobuild.infra.sandbox.command import PATH as PATH
from reprobuild.infra.sandbox.command import run_in_root as run_in_root
from reprobuild.infra.sandbox.model import Bind as Bind
from reprobuild.infra.sandbox.model import Root as Root
from reprobuild.infra.sandbox.model import left_behind as left_behind
from reprobuild.infra.sandbox.namespaces import can_layer as can_layer
from reprobuild.infra.sandbox.namespaces import check_namespaces as check_namespaces
