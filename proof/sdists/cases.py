"""The candidates, and the rules by which a candidate becomes a case. They know no outcome.

The names were picked by hand from the 2,500 most downloaded projects of the index, in that order: pure Python, small,
known to put their tests into the source archive, and neither a client of a service nor a back end of a large framework.
The rest is decided by the rules below, before any test runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidSdistFilename, parse_sdist_filename
from packaging.version import Version

from reprobuild.ecosystems.pypi.page_cache import ListedFile

YEAR = "2023"
MINORS = ("3.11", "3.10", "3.9", "3.8")
LARGEST = 1 << 20  # bytes of a source archive
_CANDIDATES = """
packaging urllib3 idna typing-extensions pydantic pygments click pluggy anyio attrs iniconfig httpx httpcore
platformdirs pathspec pyjwt filelock importlib-metadata starlette jsonschema zipp uvicorn wheel pytz tqdm
annotated-types referencing jsonschema-specifications trove-classifiers tenacity pyparsing beautifulsoup4 soupsieve
cachetools exceptiongroup more-itertools requests-toolbelt distlib distro websocket-client mypy-extensions wcwidth
docutils dnspython werkzeug pexpect async-timeout prompt-toolkit jaraco-classes jaraco-functools jaraco-context flask
dill pytest-asyncio alembic email-validator deprecated threadpoolctl blinker mako cycler tzlocal jsonpointer
pyproject-hooks prometheus-client build traitlets httplib2 cfgv aiofiles executing marshmallow fastjsonschema sqlparse
mpmath jsonpatch asttokens gunicorn babel cloudpickle stack-data asgiref nest-asyncio execnet termcolor
python-json-logger pyee markdown cachecontrol importlib-resources structlog pytest-mock mdit-py-plugins jupyter-core
pkginfo installer dataclasses-json linkify-it-py semver deepdiff invoke loguru python-slugify comm arrow pycodestyle
cattrs jsonref mistune beartype lark croniter argcomplete typeguard jsonpath-ng cleo nbformat bleach pypdf faker future
sqlglot python-docx zope-event colorlog dacite responses aiosqlite pyflakes nbclient pytest-timeout prettytable json5
humanize async-lru portalocker kombu flake8 flask-cors absl-py iso8601 trio webcolors overrides vine amqp outcome
unidiff jupyter-events terminado diskcache dateparser freezegun mashumaro apscheduler pytest-rerunfailures patsy
bytecode bracex python-pptx readme-renderer wcmatch natsort yamllint pycountry junitparser pytest-metadata validators
stevedore tldextract flask-sqlalchemy agate unidecode pyotp lazy-loader tblib mock flask-login inflect
license-expression strenum fire pymdown-extensions click-option-group requests-mock packageurl-python cron-descriptor
factory-boy qrcode python-socketio python-engineio simple-websocket pytest-env texttable jwcrypto jsonpickle
progressbar2 python-utils parse parameterized wtforms configargparse boltons pathvalidate makefun resolvelib gast partd
glom emoji feedparser apispec mkdocs pyproject-metadata fasteners blessed simpleeval marshmallow-sqlalchemy
requirements-parser schedule toposort voluptuous cookiecutter pipdeptree deepmerge protego elementpath pyhamcrest
parse-type xmlschema cerberus configobj anytree pint asteval funcy puremagic bitstring multipledispatch branca munch
"""
NAMES = tuple(_CANDIDATES.split())
_CLASSIFIER = re.compile(r"^Classifier: Programming Language :: Python :: (3\.\d+)\s*$", re.MULTILINE)
_COMPILED = (".c", ".cc", ".cpp", ".pyx", ".rs", ".f90")
_TEST_FILE = re.compile(r"(test_.*|.*_test|tests?)\.py")
_TEST_FOLDERS = ("tests", "test", "testing", "testsuite")
# Tests that name these need the network or a service.
_SERVICES = re.compile(
    r"httpbin|testcontainers|\bdocker\b|\bboto3\b|\bmoto\b|psycopg|\bpymysql\b|\bselenium\b|\bplaywright\b"
    r"|mark\.(?:network|internet|online|remote)|redis\.(?:Strict)?Redis\("
)


def choose_release(files: Iterable[ListedFile]) -> ListedFile | None:
    """Return the source archive of the highest final version that was uploaded in the year, or None."""
    dated: list[tuple[Version, ListedFile]] = []
    for file in files:
        if file.yanked is not None or not (file.uploaded or "").startswith(YEAR):
            continue
        try:
            version = parse_sdist_filename(file.filename)[1]
        except InvalidSdistFilename:
            continue
        if not version.is_prerelease:
            dated.append((version, file))
    return max(dated, key=lambda pair: pair[0], default=(None, None))[1]


def choose_python(metadata: str, requires: str, minors: Sequence[str] = MINORS) -> str | None:
    """Return the newest of some Pythons that a release names in its classifiers and permits, or None.

    If the classifiers name no such Python, the newest permitted one is returned.
    """
    try:
        allowed = SpecifierSet(requires)
    except InvalidSpecifier:
        return None
    permitted = [minor for minor in minors if allowed.contains(f"{minor}.7")]
    named = [minor for minor in permitted if minor in _CLASSIFIER.findall(metadata)]
    return next(iter(named or permitted), None)


def find_test_folder(folder: Path) -> Path | None:
    """Return the uppermost directory of an unpacked archive that holds test files, or None.

    Test files at the top make that the top.
    """
    files = sorted(path for path in folder.rglob("*.py") if _TEST_FILE.fullmatch(path.name))
    parts = [path.relative_to(folder).parts for path in files]
    shared = [
        part[: index + 1] for part in parts for index, name in enumerate(part[:-1]) if name in _TEST_FOLDERS
    ]
    if shared:
        return folder.joinpath(*min(shared, key=lambda part: (len(part), part)))
    return folder if any(len(part) == 1 for part in parts) else None


def list_test_paths(folder: Path, tests: Path) -> list[str]:
    """Return the arguments of pytest: the test directory, or the test files at the top, which may be a `tests.py`."""
    if tests != folder:
        return [str(tests.relative_to(folder))]
    return sorted(path.name for path in folder.glob("*.py") if _TEST_FILE.fullmatch(path.name))


def find_reason_to_skip(folder: Path) -> str:
    """Return the reason why an unpacked archive is no case, or an empty text."""
    tests = find_test_folder(folder)
    if tests is None:
        return "no tests"
    outside = (path for path in folder.rglob("*") if tests == folder or tests not in path.parents)
    if any(path.suffix in _COMPILED for path in outside):
        return "compiled code"
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in tests.rglob("*.py"))
    if any(_SERVICES.search(text) for text in texts):
        return "tests need a service"
    return ""
