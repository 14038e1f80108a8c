"""A small sample of each format. `NAME`, `VERSION`, `TEXT` and `PATH` stand for values that others choose.

`sources.py` names the source of each. Strings of JSON, TOML and YAML are in double quotes, so that the escapes of JSON
fit in each of them.
"""

from __future__ import annotations

_HASH = "0" * 64
_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_PROJECT = (
    'version = 1\nrequires-python = ">=3.10"\n[[package]]\nname = "work"\nversion = "1"\nsource = { virtual = "." }\n'
    'dependencies = [{ name = "NAME" }]\n[[package]]\nname = "NAME"\nversion = "VERSION"\n'
    f'sdist = {{ url = "https://pypi.example/NAME-VERSION.tar.gz", hash = "sha256:{_HASH}" }}\n'
)
_AIM = (
    '{"packages": {"NAME": "VERSION"}, "env_variables": {"NAME": "TEXT"}, "executable": "PATH", "git_info": '
    f'{{"remote_origin_url": "https://git.example/PATH", "commit": {{"hash": "{_COMMIT}"}}}}}}'
)
_ALONE = {"requirements.txt": "click==8.1.7\n"}

# Name of the format: its files; the first is the one that is changed.
SAMPLES: dict[str, dict[str, str]] = {
    "W&B run": {
        "wandb-metadata.json": '{"python": "VERSION", "os": "TEXT", "startedAt": "TEXT", "args": ["TEXT"], "git": '
        f'{{"remote": "https://git.example/PATH", "commit": "{_COMMIT}"}}}}',
        "requirements.txt": "click==8.1.7\n", "diff.patch": "diff --git a/a b/a\n",
    },
    "W&B configuration": {
        "config.yaml": '_wandb:\n  value:\n    python_version: "VERSION"\n    e: {"TEXT": {"os": "TEXT"}}\n', **_ALONE,
    },
    "MLflow model": {
        "MLmodel": 'utc_time_created: "TEXT"\nflavors: {"python_function": {"python_version": "VERSION"}}\n', **_ALONE,
    },
    "MLflow environment": {"python_env.yaml": 'python: "VERSION"\n"TEXT": "TEXT"\n', "MLmodel": "flavors: {}\n"},
    "MLflow run": {
        "meta.yaml": 'run_id: "TEXT"\nstart_time: 1715000000000\nuser_id: "TEXT"\n',
        "artifacts/MLmodel": "flavors: {}\n",
        "artifacts/requirements.txt": "click==8.1.7\n", "tags/mlflow.source.git.commit": _COMMIT,
    },
    "Guild freeze": {".guild/attrs/pip_freeze": '- "NAME==VERSION"\n- "TEXT"\n'},
    "Guild variables": {".guild/attrs/env": '"NAME": "TEXT"\nPATH: "PATH"\n', ".guild/attrs/started": "1"},
    "Guild platform": {".guild/attrs/platform": 'python_version: "VERSION"\nuname: "TEXT"\nprocessor: "TEXT"\n'},
    "Sacred run": {
        "run.json": '{"command": "TEXT", "start_time": "TEXT", "experiment": {"dependencies": ["NAME==VERSION"], '
        '"repositories": [{"url": "https://git.example/PATH", "commit": "TEXT", "dirty": true}], "TEXT": 1}, '
        '"host": {"python_version": "VERSION", "os": ["Linux", "TEXT"], "ENV": {"NAME": "TEXT"}}}',
    },
    "ClearML task": {
        "task.json": '{"type": "TEXT", "hyperparams": {}, "started": "TEXT", "script": {"repository": '
        f'"https://git.example/PATH", "version_num": "{_COMMIT}", "diff": "diff --git TEXT", '
        '"requirements": {"pip": "# Python VERSION\\nNAME == VERSION\\n"}}}',
    },
    "Aim run": {"run.json": f'{{"params": {{"__system_params": {_AIM}}}, "traces": {{}}, "props": {{"TEXT": 1}}}}'},
    "SageMaker training job": {
        "job.json": '{"TrainingJobName": "TEXT", "CreationTime": "TEXT", "Environment": {"NAME": "TEXT"}, '
        '"AlgorithmSpecification": {"TrainingImage": "TEXT"}}', **_ALONE,
    },
    "Slurm job": {
        "sacct.json": '{"meta": {}, "jobs": [{"time": {"start": {"set": true, "number": 1}}, "TEXT": "TEXT"}]}',
        "env.out": "Environment used for 1\n---\nA=b\n",
    },
    "Slurm variables": {
        "env.out": "Environment used for 1\n---\nNAME=TEXT\nPATH=PATH\n", **_ALONE,
        "sacct.json": '{"meta": {}, "jobs": [{}]}',
    },
    "uv.lock": {"uv.lock": _PROJECT + 'source = { registry = "https://pypi.example/simple" }\n'},
    "pylock.toml": {
        "pylock.toml": 'lock-version = "1.0"\ncreated-by = "TEXT"\n[[packages]]\nname = "NAME"\nversion = "VERSION"\n'
        f'[packages.sdist]\nurl = "https://pypi.example/NAME-VERSION.tar.gz"\nhashes = {{ sha256 = "{_HASH}" }}\n',
    },
    "pip inspect": {
        "pip-inspect.json": '{"installed": [{"metadata": {"name": "NAME", "version": "VERSION"}}, {"metadata": '
        '{"name": "NAME"}, "direct_url": {"url": "file:///PATH", "dir_info": {"editable": true}}}], '
        '"environment": {"python_full_version": "VERSION", "platform_system": "TEXT"}}',
    },
    "pixi.lock": {
        "pixi.lock": 'environments: {"default": {"packages": {"linux-64": [{"conda": "https://conda.example/PATH"}, '
        '{"pypi": "PATH"}]}}}\npackages: [{"pypi": "PATH", "name": "NAME", "version": "VERSION"}]\n',
    },
    "conda-lock.yml": {
        "conda-lock.yml": 'package: [{"name": "NAME", "version": "VERSION", "manager": "pip", "platform": "linux-64", '
        '"url": "https://pypi.example/PATH", "hash": {"sha256": "TEXT"}}]\n',
    },
    "poetry.lock": {
        "poetry.lock": '[[package]]\nname = "NAME"\nversion = "VERSION"\nmarkers = "TEXT"\n[[package]]\nname = "NAME"\n'
        'version = "VERSION"\n[package.source]\ntype = "directory"\nurl = "PATH"\n',
    },
    "pdm.lock": {
        "pdm.lock": '[[package]]\nname = "NAME"\nversion = "VERSION"\nmarker = "TEXT"\n[[package]]\nname = "NAME"\n'
        'path = "PATH"\n[[package]]\nname = "NAME"\ngit = "https://git.example/PATH"\nrevision = "TEXT"\n',
    },
    "Pipfile.lock": {
        "Pipfile.lock": '{"_meta": {"requires": {"python_version": "VERSION"}}, "default": {"NAME": {"version": '
        '"==VERSION", "markers": "TEXT"}, "b": {"path": "PATH", "editable": true}, "c": {"file": "PATH"}}}',
    },
    "Hugging Face model card": {"README.md": "### Framework versions\n\n- NAME VERSION\n- Python: VERSION\n- TEXT\n"},
    "pyproject.toml": {
        "pyproject.toml": '[project]\nname = "work"\ndynamic = ["dependencies"]\nrequires-python = "TEXT"\n'
        '[tool.poetry]\ndescription = "TEXT"\n[tool.poetry.dependencies]\n"NAME" = "VERSION"\nb = {git = '
        '"https://git.example/PATH", rev = "TEXT", subdirectory = "PATH"}\n'
        'c = {path = "PATH", develop = true}\nd = {version = "^1", markers = '
        '"TEXT", python = "TEXT", extras = ["NAME"]}\n[[tool.poetry.source]]\nname = "TEXT"\n',
    },
    "pyproject.toml of uv": {
        "pyproject.toml": '[project]\nname = "TEXT"\ndependencies = ["NAME==VERSION", "b", "c", "d ; TEXT"]\n[[x]]\n'
        '[tool.uv.sources]\nb = {git = "https://git.example/PATH", tag = "TEXT"}\nc = {path = "PATH", editable = '
        'true}\n"NAME" = {index = "TEXT"}\n[dependency-groups]\n"NAME" = ["TEXT"]\n',
    },
    "setup.cfg": {
        "setup.cfg": "[metadata]\nname = NAME\n[options]\ninstall_requires =\n  NAME==VERSION\n  a; TEXT\n  b @ PATH\n"
        "python_requires = TEXT\n[options.extras_require]\nNAME = TEXT\n",
    },
    "Hydra": {
        ".hydra/hydra.yaml": 'hydra: {"runtime": {"version": "VERSION"}, "job": {"env_set": {"NAME": "TEXT"}}, '
        '"TEXT": 1}\n',
        "pdm.lock": '[[package]]\nname = "click"\nversion = "8.1.7"\n',
    },
    "DVC": {
        "data/x.dvc": 'outs: [{"path": "PATH", "md5": "d8acabbfd4ee51c95da5d7628c7ef74b.dir", "size": 1}]\n"TEXT": 1\n',
        **_ALONE, "dvc.lock": "stages: {}\n",
    },
    "notebook": {
        "a.ipynb": '{"metadata": {"kernelspec": {"name": "TEXT"}, "language_info": {"version": "VERSION"}, "TEXT": 1}}',
        **_ALONE,
    },
    "requirements": {"requirements.txt": "NAME==VERSION\n-r PATH\nTEXT\n"},
}  # fmt: skip
PLAIN = {"NAME": "click", "VERSION": "3.11.9", "TEXT": "os_name == 'posix'", "PATH": "some/path"}
