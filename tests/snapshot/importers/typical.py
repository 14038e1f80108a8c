"""A small import of each format, with the fields that its tool writes by default: two distributions and a run.

`sources.py` names the source of each.
"""

from __future__ import annotations

import json

_HASH = "0" * 64
_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_FREEZE = "click==8.1.7\niniconfig==2.0.0\n"
_START = "2024-01-15T12:00:00Z"
_LINUX = "Linux-6.1.0-x86_64-with-glibc2.36"
_FILES = "https://files.example.org"
_CONDA = "https://conda.example.org/main"


def _toml(row: str) -> str:
    return "".join(
        row.replace("NAME", name).replace("VERSION", version)
        for name, version in (("click", "8.1.7"), ("iniconfig", "2.0.0"))
    )


# Name of the format in the table: its files. A single file is imported by its own name.
TYPICAL: dict[str, dict[str, str]] = {
    "W&B": {
        "wandb-metadata.json": json.dumps({"os": _LINUX, "python": "CPython 3.11.2", "startedAt": _START}),
        "requirements.txt": _FREEZE,
    },
    "MLflow": {
        "MLmodel": f'flavors: {{"python_function": {{"python_version": "3.11.2"}}}}\nutc_time_created: "{_START}"\n',
        "python_env.yaml": "python: 3.11.2\ndependencies:\n- -r requirements.txt\n",
        "requirements.txt": _FREEZE,
    },
    "Guild AI": {
        ".guild/attrs/pip_freeze": "- click==8.1.7\n- iniconfig==2.0.0\n",
        ".guild/attrs/platform": "python_version: 3.11.2\nuname: Linux node\nprocessor: x86_64\n",
        ".guild/attrs/started": "1705320000000000\n",
    },
    "Sacred": {
        "run.json": json.dumps(
            {
                "command": "main", "start_time": _START, "experiment": {
                    "dependencies": ["click==8.1.7", "iniconfig==2.0.0"], "repositories": [],
                },
                "host": {"python_version": "3.11.2", "os": ["Linux", _LINUX], "ENV": {}},
            }
        ),
    },
    "ClearML": {
        "task.json": json.dumps(
            {
                "type": "training", "hyperparams": {}, "started": _START, "script": {
                    "repository": "https://git.example.org/job.git", "version_num": _COMMIT, "diff": "",
                    "requirements": {"pip": "# Python 3.11.2 (main)\n\nclick == 8.1.7\niniconfig == 2.0.0\n"},
                },
            }
        ),
    },
    "Aim": {
        "run.json": json.dumps(
            {
                "params": {"__system_params": {"packages": {"click": "8.1.7", "iniconfig": "2.0.0"}}}, "traces": {},
                "props": {"creation_time": 1705320000},
            }
        ),
    },
    "SageMaker": {
        "job.json": json.dumps(
            {
                "TrainingJobName": "job", "CreationTime": _START, "Environment": {"OMP_NUM_THREADS": "4"},
                "AlgorithmSpecification": {"TrainingImage": "registry.example.org/train:1"},
            }
        ),
        "requirements.txt": _FREEZE,
    },
    "Slurm": {
        "sacct.json": json.dumps({"meta": {}, "jobs": [{"time": {"start": 1705320000}}]}),
        "env.out": "Environment used for 1\n---\nOMP_NUM_THREADS=4\n",
        "requirements.txt": _FREEZE,
    },
    "a model card": {
        "README.md": "# Model\n\n### Framework versions\n\n- Transformers 4.36.2\n- Pytorch 2.1.2+cu121\n",
    },
    "`uv.lock`": {
        "uv.lock": 'version = 1\nrequires-python = ">=3.11"\n[[package]]\nname = "job"\nversion = "1"\n'
        'source = { virtual = "." }\ndependencies = [{ name = "click" }, { name = "iniconfig" }]\n'
        + _toml(
            '[[package]]\nname = "NAME"\nversion = "VERSION"\nsource = { registry = "https://index.example.org/simple" '
            f'}}\nsdist = {{ url = "{_FILES}/NAME-VERSION.tar.gz", hash = "sha256:{_HASH}" }}\n'
        ),
    },
    "`pylock.toml`": {
        "pylock.toml": 'lock-version = "1.0"\ncreated-by = "uv"\nrequires-python = ">=3.11"\n'
        + _toml(
            '[[packages]]\nname = "NAME"\nversion = "VERSION"\n[packages.sdist]\n'
            f'url = "{_FILES}/NAME-VERSION.tar.gz"\nhashes = {{ sha256 = "{_HASH}" }}\n'
        ),
    },
    "`pip inspect`": {
        "pip-inspect.json": json.dumps(
            {
                "version": "1", "pip_version": "23.3",
                "installed": [
                    {"metadata": {"name": "click", "version": "8.1.7"}},
                    {"metadata": {"name": "iniconfig", "version": "2.0.0"}},
                ],
                "environment": {"python_full_version": "3.11.2", "platform_system": "Linux"},
            }
        ),
    },
    "`pixi.lock`": {
        "pixi.lock": 'version: 6\nenvironments: {"default": {"packages": {"linux-64": [{"conda": '
        f'"{_CONDA}/linux-64/python-3.11.7-h1_0.conda"}}]}}}}}}\npackages: [{{"conda": '
        f'"{_CONDA}/linux-64/python-3.11.7-h1_0.conda", "sha256": "{_HASH}"}}]\n',
    },
    "`conda-lock.yml`": {
        "conda-lock.yml": 'package: [{"name": "python", "version": "3.11.7", "manager": "conda", "platform": '
        f'"linux-64", "url": "{_CONDA}/linux-64/python-3.11.7-h1_0.conda", "hash": {{"sha256": "{_HASH}"}}}}]\n',
    },
    "`poetry.lock`": {
        "poetry.lock": _toml('[[package]]\nname = "NAME"\nversion = "VERSION"\noptional = false\nfiles = []\n')
        + '[metadata]\nlock-version = "2.0"\npython-versions = "^3.11"\n',
    },
    "`pdm.lock`": {
        "pdm.lock": '[metadata]\nlock_version = "4.5.0"\n[[metadata.targets]]\nrequires_python = "==3.11.*"\n'
        + _toml('[[package]]\nname = "NAME"\nversion = "VERSION"\n'),
    },
    "`Pipfile.lock`": {
        "Pipfile.lock": json.dumps(
            {
                "_meta": {"requires": {"python_version": "3.11"}},
                "default": {"click": {"version": "==8.1.7"}, "iniconfig": {"version": "==2.0.0"}},
            }
        ),
    },
    "`pyproject.toml`": {
        "pyproject.toml": '[project]\nname = "job"\nversion = "1"\nrequires-python = ">=3.9,<3.12"\n'
        'dependencies = ["click<8.2", "iniconfig"]\n',
    },
    "`setup.cfg`": {
        "setup.cfg": "[metadata]\nname = job\n[options]\npython_requires = >=3.8\ninstall_requires =\n    click<8.2\n"
        "    iniconfig\n",
    },
    "`requirements.txt`, pinned": {"requirements.txt": _FREEZE},
    "`requirements.txt` with ranges": {"requirements.txt": "click<8.2\niniconfig\n"},
    "`environment.yml` with Python": {
        "environment.yml": "channels: [main]\ndependencies:\n- python=3.11.7=h1_0\n- pip:\n  - click==8.1.7\n",
    },
    "`environment.yml` without Python": {"environment.yml": "dependencies:\n- pip:\n  - click==8.1.7\n"},
    "`environment.yml` with requests": {"environment.yml": "dependencies:\n- python=3.11\n- numpy\n"},
}  # fmt: skip
