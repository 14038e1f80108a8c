# Targets for people and for CI; they need Python 3.10, git, make and (without Docker) root on Debian.

STORE ?= build/store
OUT ?= build/cpu-train
SNAPSHOT ?= examples/cpu-train/snapshot
# The user's own decisions on it; empty where there are none.
DECISIONS ?= $(wildcard $(dir $(SNAPSHOT))reprobuild.yaml)
PYTEST_ARGS ?=
BENCH_ARGS ?=
PROOF ?= build/proof
PROOF_ARGS ?=
SITE ?= build/site

# The checks start thousands of Python processes: each would compile the modules again.
unexport PYTHONDONTWRITEBYTECODE

VENV = .venv
PYTHON = $(VENV)/bin/python
# Uses the Docker engine that answers, otherwise a private one that lives in .engine.
WITH_ENGINE = $(PYTHON) dev/private_engine.py run --folder .engine --

# Likewise for Apptainer and mksquashfs.
WITH_APPTAINER = $(PYTHON) dev/private_apptainer.py run --folder .engine/apptainer --

.DEFAULT_GOAL := help
.PHONY: help demo quick test check newest lock bench proof release-check docs pictures evidence gpu-evidence venv bare clean

help:
	@echo 'make demo   build the example snapshot into an image and verify it (OUT=$(OUT) STORE=$(STORE))'
	@echo 'make test   format, lint, types and all tests, with a real engine (PYTEST_ARGS=...)'
	@echo 'make quick  format, lint, types and tests that need no engine (TESTS="PATH..." for others)'
	@echo 'make newest the same with the newest releases of all dependencies; meant for a weekly run'
	@echo 'make lock   lock the newest releases of the dependencies in dev/requirements.txt'
	@echo 'make bench  the figures as ratios, after `make demo` (BENCH_ARGS="--evidence FILE")'
	@echo 'make proof  the long experiments, hours, after `make demo` (PROOF_ARGS="NAME... --shard 1/4")'
	@echo 'make release-check   wheel and sdist, installed and run from fresh environments'
	@echo 'make docs   the documentation site (SITE=$(SITE))'
	@echo 'make pictures  the pictures of docs/pictures, after `make demo`'
	@echo 'make evidence lists the evidence that is missing or older than the code'
	@echo 'make venv   the Python environment .venv'
	@echo 'make bare   `make demo` and `make test` of HEAD in a bare Debian root (CMD=... for another command)'
	@echo 'make gpu-evidence   one file that measures the probes where a GPU is'
	@echo 'make clean  remove .venv, .engine (stopped first) and build'

venv:
	@dev/setup_venv.sh

demo: venv
	.venv/bin/reprobuild from-snapshot '$(SNAPSHOT)' $(if $(DECISIONS),--decisions '$(DECISIONS)') \
		-o '$(OUT)' --store '$(STORE)'

test: venv check

# Tests of values and text: they need no engine, no store and no network.
QUICK = tests/snapshot/test_kinds.py tests/snapshot/test_freeze.py tests/snapshot/test_read_snapshot.py tests/test_architecture.py tests/test_cli.py tests/test_decisions.py tests/test_docs.py \
	tests/test_hints.py tests/test_lock.py tests/test_lock_keys.py tests/test_reference.py tests/test_trust.py
TESTS ?= $(QUICK)

quick: venv
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m ruff check
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest -q -n auto $(TESTS) $(PYTEST_ARGS)

newest:
	@dev/setup_venv.sh --newest
	@$(MAKE) --no-print-directory check VENV=.venv-newest

check:
	@$(PYTHON) dev/check_space.py
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m ruff check
	$(PYTHON) -m mypy
	$(WITH_ENGINE) $(PYTHON) -m pytest -q -n 2 --no-loadscope-reorder --durations 40 --durations-min 5 $(PYTEST_ARGS)

# Hashes and no addresses: each machine asks its own indexes. The wheels of every system and Python >= 3.10.
lock:
	@dev/setup_venv.sh --newest
	.venv-newest/bin/python -m uv pip compile pyproject.toml --extra dev --universal --python-version 3.10 --generate-hashes \
		--upgrade --no-emit-index-url --no-annotate --custom-compile-command 'make lock' --quiet \
		--output-file dev/requirements.txt

# Needs the store and results of `make demo`; says so where they are missing.
bench: venv
	$(WITH_ENGINE) $(WITH_APPTAINER) $(PYTHON) -m benchmarks.run --store '$(STORE)' --results '$(OUT)' \
		--apptainer apptainer $(BENCH_ARGS)

# Goes on where it was cut off; the evidence is in docs/evidence.
proof: venv
	$(WITH_ENGINE) $(PYTHON) -m proof $(PROOF_ARGS) --results '$(OUT)' --store '$(STORE)' --work '$(PROOF)'

# Wheel and sdist, each installed into a fresh environment from this machine's index, and the demo from the wheel.
release-check: venv
	$(PYTHON) dev/release_check.py $(RELEASE_ARGS)

# Reads every page again: a page that did not change repeats no warning, and a warning is an error.
docs: venv
	$(PYTHON) -m sphinx --quiet --fail-on-warning --keep-going --fresh-env --write-all \
		--conf-dir docs --doctree-dir '$(SITE).doctrees' . '$(SITE)'

# After `make demo`: from its report, the site, and the terminal.
pictures: docs
	OUT='$(abspath $(OUT))' SITE='$(abspath $(SITE))' $(PYTHON) -m pytest -q tests/pictures.py

evidence: venv
	@$(PYTHON) -m proof.stale

gpu-evidence:
	python3 dev/gpu_evidence.py build/gpu-evidence.pyz

CMD ?= make demo && make test
bare:
	dev/bare_root.sh sh -c '$(CMD)'

# Any Python does here: .venv may be broken or gone.
clean:
	python3 dev/private_apptainer.py clean --folder .engine/apptainer
	python3 dev/private_engine.py clean --folder .engine
	rm -rf .venv .venv-newest build
