"""Secrets: rules by name and by value, as data, and functions that cut secrets out.

Names may be shown, values never. For environment variables the rules prefer false alarms, because a dropped value
costs a question. For source text they prefer silence, because a false alarm stops a build.
"""

from __future__ import annotations

from reprobuild_portable.secrets.files import secret_file as secret_file
from reprobuild_portable.secrets.files import secret_name_of_file as secret_name_of_file
from reprobuild_portable.secrets.judges import SecretRule as SecretRule
from reprobuild_portable.secrets.redact import cut_secrets as cut_secrets
from reprobuild_portable.secrets.redact import redact as redact
from reprobuild_portable.secrets.redact import secret_query as secret_query
from reprobuild_portable.secrets.redact import strip_credentials as strip_credentials
from reprobuild_portable.secrets.redact import without_logins as without_logins
from reprobuild_portable.secrets.rules import VALUES as VALUES
from reprobuild_portable.secrets.search import find as find
from reprobuild_portable.secrets.search import secret_value as secret_value
from reprobuild_portable.secrets.variables import holds_secret as holds_secret
from reprobuild_portable.secrets.variables import secret_variable as secret_variable
from reprobuild_portable.secrets.words import CONDA_TOKEN as CONDA_TOKEN
from reprobuild_portable.secrets.words import GONE as GONE
from reprobuild_portable.secrets.words import looks_generated as looks_generated
from reprobuild_portable.secrets.words import secret_name as secret_name
