"""The environments: machine, tool, packages and job.

Each job prints digests of its results, so that the image's answer can be compared with the machine's. The versions are
the newest in the index on the day of the experiment, as they are for a person who begins a project.
"""

from __future__ import annotations

from msgspec import Struct

PRINT = """
import hashlib
def show(name, array):
    import numpy
    print(name, hashlib.sha256(numpy.ascontiguousarray(array).tobytes()).hexdigest()[:16])
"""
NUMPY = """
import numpy
rng = numpy.random.default_rng(0)
show("product", rng.random((300, 300)) @ rng.random((300, 300)))
"""
PANDAS = """
import numpy, pandas
frame = pandas.DataFrame(numpy.random.default_rng(0).random((1000, 4)), columns=list("abcd"))
show("means", frame.rolling(7).mean().dropna().to_numpy())
"""
SKLEARN = """
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
x, y = make_classification(400, random_state=0)
show("forest", RandomForestClassifier(20, random_state=0).fit(x, y).predict_proba(x))
"""
XGBOOST = """
import numpy, xgboost
rng = numpy.random.default_rng(0)
x = rng.random((400, 8)); y = x.sum(1)
show("trees", xgboost.XGBRegressor(n_estimators=20, nthread=1).fit(x, y).predict(x))
"""
LIGHTGBM = """
import numpy, lightgbm
rng = numpy.random.default_rng(0)
x = rng.random((400, 8)); y = x.sum(1)
model = lightgbm.LGBMRegressor(n_estimators=20, deterministic=True, num_threads=1, verbose=-1).fit(x, y)
show("trees", model.predict(x))
"""
CATBOOST = """
import numpy, catboost
rng = numpy.random.default_rng(0)
x = rng.random((200, 8)); y = x.sum(1)
model = catboost.CatBoostRegressor(iterations=10, verbose=False, allow_writing_files=False, thread_count=1)
show("trees", model.fit(x, y).predict(x))
"""
TORCH = """
import torch
torch.manual_seed(0); torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
step = torch.optim.AdamW(model.parameters())
for _ in range(20):
    loss = model(torch.randn(32, 64)).square().mean(); step.zero_grad(); loss.backward(); step.step()
show("weights", model[0].weight.detach().numpy())
"""
TRANSFORMERS = """
import torch
from accelerate import Accelerator
from transformers import GPT2Config, GPT2LMHeadModel
torch.manual_seed(0); torch.set_num_threads(1)
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=32))
accelerator = Accelerator(cpu=True)
model, step = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
ids = torch.randint(0, 100, (4, 16))
for _ in range(3):
    loss = model(input_ids=ids, labels=ids).loss; accelerator.backward(loss); step.step(); step.zero_grad()
show("loss", loss.detach().numpy())
"""
LIGHTNING = """
import lightning, torch, hydra, omegaconf
lightning.seed_everything(0); torch.set_num_threads(1)
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__(); self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, _):
        return self.layer(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 8)), batch_size=8)
model = Model()
lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False, barebones=True).fit(model, data)
show("weights", model.layer.weight.detach().numpy())
"""
JAX = """
import jax, jax.numpy as jnp
x = jax.random.normal(jax.random.key(0), (64, 64))
show("gradient", jax.jit(jax.grad(lambda x: jnp.tanh(x @ x).sum()))(x))
"""
FLAX = """
import jax, jax.numpy as jnp, optax
from flax import linen
model = linen.Dense(8); x = jnp.ones((4, 8))
params = model.init(jax.random.key(0), x); step = optax.adam(1e-2); state = step.init(params)
loss = lambda params: (model.apply(params, x) ** 2).mean()
for _ in range(3):
    updates, state = step.update(jax.grad(loss)(params), state); params = optax.apply_updates(params, updates)
show("loss", loss(params))
"""
TENSORFLOW = """
import tensorflow as tf
tf.keras.utils.set_random_seed(0); tf.config.experimental.enable_op_determinism()
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = tf.random.normal((64, 8))
model.fit(x, tf.reduce_sum(x, 1), epochs=1, verbose=0)
show("weights", model.get_weights()[0])
"""
KERAS = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
show("weights", model.get_weights()[0])
"""
STATSMODELS = """
import numpy, statsmodels.api as sm
rng = numpy.random.default_rng(0)
x = sm.add_constant(rng.random((100, 3)))
show("fit", sm.OLS(x.sum(1) + rng.random(100), x).fit().params)
"""
OPENCV = """
import cv2, numpy
image = (numpy.random.default_rng(0).random((64, 64, 3)) * 255).astype("uint8")
show("blur", cv2.GaussianBlur(image, (5, 5), 0))
"""
SPACY = """
import spacy, numpy
nlp = spacy.blank("en")
show("tokens", numpy.array([token.orth for token in nlp("Nothing is lost, and nothing is made.")]))
"""
STABLE = """
import gymnasium, torch
from stable_baselines3 import A2C
torch.set_num_threads(1)
model = A2C("MlpPolicy", "CartPole-v1", seed=0, device="cpu", n_steps=8)
model.learn(64)
show("weights", next(model.policy.parameters()).detach().numpy())
"""
POLARS = """
import polars, numpy
frame = polars.DataFrame({"a": numpy.random.default_rng(0).random(1000)})
show("sorted", frame.sort("a")["a"].to_numpy())
"""
MLFLOW = (
    SKLEARN
    + """
import mlflow.sklearn
"""
)
OPTUNA = """
import numpy, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=20)
show("best", numpy.array(study.best_value))
"""
SENTENCES = """
import sentence_transformers, torch
torch.manual_seed(0)
show("layer", torch.nn.Linear(4, 4).weight.detach().numpy())
"""
NOTEBOOK = """
import json, papermill
source = (
    "import hashlib, pandas\\n"
    "frame = pandas.DataFrame({'a': range(100)}).rolling(7).mean().dropna()\\n"
    "print(hashlib.sha256(frame.to_numpy().tobytes()).hexdigest())"
)
cell = {"cell_type": "code", "execution_count": None, "id": "a", "metadata": {}, "outputs": [], "source": source}
kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
json.dump({"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, open("/tmp/job.ipynb", "w"))
done = papermill.execute_notebook("/tmp/job.ipynb", "/tmp/done.ipynb", progress_bar=False)
print(done.cells[-1].outputs[0]["text"])
"""
PLAIN = """
import json, statistics
print("mean", statistics.fmean(json.load(open("data/values.json"))))
"""


class Case(Struct, frozen=True, kw_only=True):
    """One environment.

    Attributes:
        name: tool, machine and packages in a few words.
        machine: a key of `machine.KINDS`.
        make: Bash that makes the environment; its Python is then `env/bin/python`, or the value of `python`.
        job: the code of `job/train.py`.
        capture: `capture` for `reprobuild capture`, `recipe` for the Bash recipe of docs/snapshots.md.
        python: the Python that runs the job.
        project: Bash that makes the repository in `job`, or more of them, before the environment.
        options: of `capture`.
        here: whether the machine that makes the image has the Pythons of the captured one, as one with the same home.
        slurm: whether job and capture run in a job of a Slurm cluster of three nodes with Lmod.
    """

    name: str
    machine: str
    make: str
    job: str
    capture: str
    python: str = "env/bin/python"
    project: str = ""
    options: str = ""
    here: bool = False
    slurm: bool = False


def _venv(*packages: str) -> str:
    return f"python3 -m venv env && env/bin/pip install -q {' '.join(packages)}"


def _uv(*packages: str, python: str = "python3") -> str:
    return f"$UV venv -q -p {python} env && $UV pip install -q -p env {' '.join(packages)}"


def _pyenv(version: str, *packages: str) -> str:
    return f"$PYENV/versions/{version}/bin/python -m venv env && env/bin/pip install -q {' '.join(packages)}"


def _git_install(name: str) -> str:
    return f'env/bin/pip install -q "git+$REMOTE/{name}.git"'


_CPU = "torch==2.13.0+cpu"
_GIT = """
git config --global user.name Ada && git config --global user.email ada@example.org
git init -q -b main job && git -C job add -A && git -C job commit -q -m first
"""
# A repository in place, pushed to a bare one, which a server has.
_PUSHED = """
git init -q -b main {0} && git -C {0} add -A && git -C {0} commit -q -m first && git init -q --bare -b main {0}.git
git -C {0} remote add origin "$PWD/{0}.git" && git -C {0} push -q -u origin main && git -C {0}.git update-server-info
git -C {0} remote set-url origin "$REMOTE/{0}.git" && git -C {0} fetch -q
"""
# A project that is installed in place, and changed since.
_EDITABLE = (
    _GIT
    + """
mkdir -p lib/tinylib && printf 'FACTOR = 2\\n' > lib/tinylib/__init__.py
cat > lib/pyproject.toml <<'END'
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "tinylib"
version = "0.1"
[tool.setuptools]
packages = ["tinylib"]
END
"""
    + _PUSHED.format("lib")
    + "printf 'FACTOR = 3\\n' > lib/tinylib/__init__.py\n"
)
_COMPILED = (
    _GIT
    + """
mkdir ext && cat > ext/pyproject.toml <<'END'
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
END
cat > ext/setup.py <<'END'
from setuptools import Extension, setup
setup(name="quick", version="0.1", ext_modules=[Extension("quick", ["quick.c"])])
END
cat > ext/quick.c <<'END'
#include <Python.h>
static PyObject *twice(PyObject *self, PyObject *x) { return PyFloat_FromDouble(2 * PyFloat_AsDouble(x)); }
static PyMethodDef methods[] = {{"twice", twice, METH_O, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "quick", "", -1, methods};
PyMODINIT_FUNC PyInit_quick(void) { return PyModule_Create(&module); }
END
"""
    + _PUSHED.format("ext")
)
_DATA = _GIT + "mkdir -p job/data && printf '[1, 2, 3.5]' > job/data/values.json\n"

CASES: tuple[Case, ...] = (
    Case(name="venv, NumPy", machine="container", make=_venv("numpy"), job=NUMPY, capture="capture"),
    Case(name="venv, pandas", machine="server", make=_venv("pandas"), job=PANDAS, capture="recipe"),
    Case(name="venv, scikit-learn", machine="container", make=_venv("scikit-learn"), job=SKLEARN, capture="capture"),
    Case(name="venv, scikit-learn, server", machine="server", make=_venv("scikit-learn", "pandas", "matplotlib"),
         job=SKLEARN, capture="recipe", project=_GIT),
    Case(name="uv, scikit-learn", machine="server", make=_uv("scikit-learn"),
         job=SKLEARN, capture="capture", project=_GIT),
    Case(name="uv with pip, scikit-learn", machine="container", make=_uv("pip", "scikit-learn"),
         job=SKLEARN, capture="recipe"),
    Case(name="venv, XGBoost", machine="server", make=_venv("xgboost", "scikit-learn"),
         job=XGBOOST, capture="recipe"),
    Case(name="venv, LightGBM", machine="server", make=_venv("lightgbm", "scikit-learn"),
         job=LIGHTGBM, capture="capture"),
    Case(name="uv, CatBoost and Optuna", machine="server", make=_uv("catboost", "optuna"),
         job=CATBOOST + OPTUNA, capture="capture"),
    Case(name="venv, torch", machine="container", make=_venv(_CPU, "numpy"), job=TORCH, capture="capture"),
    Case(name="venv, torch, server", machine="server", make=_venv(_CPU, "numpy"),
         job=TORCH, capture="recipe", project=_GIT),
    Case(name="uv, torch", machine="server", make=_uv(_CPU, "numpy"), job=TORCH, capture="capture", project=_GIT),
    Case(name="venv, transformers and accelerate", machine="server", make=_venv(_CPU, "transformers", "accelerate"),
         job=TRANSFORMERS, capture="capture", project=_GIT),
    Case(name="venv, Lightning and Hydra", machine="server", make=_venv(_CPU, "lightning", "hydra-core", "numpy"),
         job=LIGHTNING, capture="recipe", project=_GIT),
    Case(name="venv, JAX", machine="container", make=_venv("jax"), job=JAX, capture="capture"),
    Case(name="uv, Flax and Optax", machine="server", make=_uv("flax", "optax"),
         job=FLAX, capture="capture", project=_GIT),
    Case(name="venv, JAX and Flax by recipe", machine="server", make=_venv("flax", "optax"),
         job=FLAX, capture="recipe"),
    Case(name="venv, TensorFlow", machine="server", make=_venv("tensorflow-cpu"), job=TENSORFLOW, capture="capture"),
    Case(name="venv, Keras on JAX", machine="container", make=_venv("keras", "jax"), job=KERAS, capture="recipe"),
    Case(name="venv, notebook", machine="server", make=_venv("notebook", "scikit-learn", "pandas"),
         job=SKLEARN, capture="recipe", project=_GIT),
    Case(name="uv, papermill", machine="server", make=_uv("papermill", "ipykernel", "pandas"),
         job=PANDAS, capture="capture"),
    Case(name="editable install with changes", machine="server",
         make=_venv("numpy") + " && env/bin/pip install -q -e lib",
         job="import tinylib\nprint('factor', tinylib.FACTOR)\n" + NUMPY, capture="capture", project=_EDITABLE),
    Case(name="editable install with changes, recipe", machine="server",
         make=_venv("numpy") + " && env/bin/pip install -q -e lib",
         job="import tinylib\nprint('factor', tinylib.FACTOR)\n" + NUMPY, capture="recipe", project=_EDITABLE),
    Case(name="compiled extension from git", machine="server",
         make=_venv("numpy", "setuptools") + " && " + _git_install("ext"),
         job="import quick\nprint('twice', quick.twice(4.0))\n" + NUMPY, capture="capture", project=_COMPILED),
    Case(name="source distribution with C", machine="server",
         make=_venv("numpy", "scipy", "psutil", "--no-binary", "psutil"),
         job="import psutil\n" + NUMPY, capture="recipe"),
    Case(name="project with data", machine="server", make=_venv("numpy", "requests"),
         job=PLAIN + NUMPY, capture="capture", project=_DATA),
    Case(name="developer, scikit-learn", machine="developer", make=_venv("scikit-learn", "pandas"),
         job=SKLEARN, capture="capture", project=_GIT),
    Case(name="developer, torch by recipe", machine="developer", make=_venv(_CPU, "numpy"),
         job=TORCH, capture="recipe"),
    Case(name="developer, Python of the system", machine="developer",
         make="pip3 install -q --break-system-packages polars",
         job=POLARS, capture="capture", python="/usr/bin/python3"),
    Case(name="developer, venv with system packages", machine="developer",
         make="python3 -m venv --system-site-packages env && env/bin/pip install -q scikit-learn",
         job=SKLEARN, capture="capture"),
    Case(name="pyenv 3.11.7, NumPy", machine="pyenv", make=_pyenv("3.11.7", "numpy"), job=NUMPY, capture="capture"),
    Case(name="pyenv 3.11.7, itself captured", machine="pyenv", make=_pyenv("3.11.7", "numpy"),
         job=NUMPY, capture="capture", options="--include interpreter"),
    Case(name="pyenv 3.13.0, frozen where it ran", machine="pyenv", make=_pyenv("3.13.0", "numpy"),
         job=NUMPY, capture="capture", here=True),
    Case(name="pyenv 3.11.7 by recipe, frozen where it ran", machine="pyenv", make=_pyenv("3.11.7", "scikit-learn"),
         job=SKLEARN, capture="recipe", here=True),
    Case(name="pyenv 3.12.1, pandas", machine="pyenv", make=_pyenv("3.12.1", "pandas"), job=PANDAS, capture="recipe"),
    Case(name="uv on pyenv 3.10.13", machine="pyenv",
         make=_uv("scikit-learn", python="$PYENV/versions/3.10.13/bin/python"),
         job=SKLEARN, capture="capture"),
    Case(name="venv, statsmodels", machine="container", make=_venv("statsmodels"), job=STATSMODELS, capture="recipe"),
    Case(name="venv, OpenCV", machine="server", make=_venv("opencv-python-headless"), job=OPENCV, capture="capture"),
    Case(name="uv, spaCy", machine="container", make=_uv("spacy"), job=SPACY, capture="capture"),
    Case(name="venv, Stable-Baselines3", machine="server", make=_venv(_CPU, "stable-baselines3"),
         job=STABLE, capture="recipe"),
    Case(name="venv, MLflow", machine="server", make=_venv("mlflow", "scikit-learn"),
         job=MLFLOW, capture="capture", project=_GIT),
    Case(name="uv, sentence-transformers", machine="server", make=_uv(_CPU, "sentence-transformers"),
         job=SENTENCES, capture="capture"),
    Case(name="Slurm job, torch", machine="server", make=_venv(_CPU, "numpy"),
         job=TORCH, capture="capture", project=_GIT, slurm=True),
    Case(name="Slurm job, transformers by recipe", machine="server", make=_venv(_CPU, "transformers", "accelerate"),
         job=TRANSFORMERS, capture="recipe", slurm=True),
    Case(name="Slurm job, scikit-learn of uv", machine="server", make=_uv("scikit-learn", "wandb"),
         job=SKLEARN, capture="capture", project=_EDITABLE, slurm=True),
    Case(name="list of 2023, TensorFlow 2.15", machine="server",
         make=_venv("tensorflow-cpu==2.15.0", "numpy==1.26.2"), job=TENSORFLOW, capture="recipe", project=_GIT),
    Case(name="list of 2023, scikit-learn 1.3", machine="container",
         make=_venv("scikit-learn==1.3.2", "pandas==2.1.4", "scipy==1.11.4", "numpy==1.26.2"),
         job=SKLEARN, capture="recipe"),
    Case(name="list of 2024, JAX 0.4.30", machine="server",
         make=_uv("jax==0.4.30", "jaxlib==0.4.30", "flax==0.8.5", "optax==0.2.3", "numpy==1.26.4"),
         job=FLAX, capture="capture"),
    Case(name="papermill runs a notebook", machine="server", make=_venv("papermill", "ipykernel", "pandas"),
         job=NOTEBOOK, capture="capture"),
    Case(name="venv, Polars", machine="container", make=_venv("polars", "numpy"), job=POLARS, capture="recipe"),
)  # fmt: skip
