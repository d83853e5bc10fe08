# Everything a developer runs. Each target sets itself up from nothing in .venv; `make` alone lists them.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:  # two installs into one .venv at a time would spoil it
.SUFFIXES:

PYTHON ?=
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore \
	$(BIN)/python -m pip install -qq --progress-bar off -c constraints.txt
# One BLAS thread a process: pytest already starts one process a core.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
# Byte code is kept, whatever the environment says: tests start hundreds of processes, and pytest rewrites 600 files.
# A worker goes through whole files, which share what they set up; one that is done takes tests off the other's end.
PYTEST := $(ONE_THREAD) PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist worksteal

# A virtual environment knows its own folder: the stamp carries it, so a moved or copied project gets a new one.
HERE := $(shell pwd | cksum | cut -d ' ' -f 1)
MADE := $(VENV)/.made-$(HERE)
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev
FULL := $(VENV)/.installed-full
METADATA := pyproject.toml constraints.txt

ifeq ($(shell test -x $(BIN)/python && echo yes),)
.PHONY: $(MADE)  # the interpreter is gone, whatever the stamp says
endif

##@ Try it
OUT ?= out/demo
.PHONY: demo
demo: $(CORE)  ## five rows on drifting digits: a table here and a page beside it (OUT=out/demo)
	@$(BIN)/fielding demo --out $(OUT) </dev/null

.PHONY: figures
figures: $(CORE)  ## draw intra-cluster heterogeneity over time on real traces (needs the data folder)
	@$(ONE_THREAD) $(BIN)/python experiments/heterogeneity.py </dev/null

EXPERIMENTS := $(basename $(notdir $(wildcard experiments/reproduce/*.toml)))
.PHONY: experiments
experiments: $(CORE)  ## list the figures and tables of the paper that can be run again on stand-ins for its data
	@$(BIN)/python -m experiments.reproduce --list </dev/null

.PHONY: $(EXPERIMENTS:%=experiment-%)
$(EXPERIMENTS:%=experiment-%): experiment-%: $(CORE)  # one of them; ARGS=--quick needs no data, ARGS="--jobs 2" is faster
	@$(ONE_THREAD) $(BIN)/python -m experiments.reproduce $* $(ARGS) </dev/null

.PHONY: experiment-theorem
experiment-theorem: $(CORE)  ## measure the regret of the paper's algorithm beside its theorem, on quadratics that meet the assumptions
	@$(ONE_THREAD) $(BIN)/python -m experiments.theorem $(ARGS) </dev/null

.PHONY: experiment-all
experiment-all: $(CORE)  ## run all of them, most important first; make experiment-NAME runs one; ARGS=--quick, ARGS="--jobs 2"
	@$(ONE_THREAD) $(BIN)/python -m experiments.reproduce all $(ARGS) </dev/null

.PHONY: results
results: $(CORE)  ## tune and compare all methods, then the figures of the paper (hours; goes on where it was stopped)
	@$(ONE_THREAD) $(BIN)/python -m experiments.peers all $(ARGS) </dev/null
	@$(ONE_THREAD) $(BIN)/python -m experiments.reproduce all --jobs 2 </dev/null

.PHONY: bench
bench: $(FULL)  ## measure coordinator, simulator and rounds on Flower beside their peers; prints tables and JSON
	@$(BIN)/python -m benchmarks coordinator </dev/null
	@$(BIN)/python -m benchmarks simulator </dev/null
	@$(BIN)/python -m benchmarks simulated-nodes </dev/null
	@$(BIN)/python -m benchmarks ray </dev/null

##@ Work on it
.PHONY: test
test: $(DEV)  ## run all tests but the slow ones; ARGS="-k words" picks some; without PyTorch its tests are skipped
	@$(PYTEST) -m "not slow" $(ARGS) </dev/null

.PHONY: test-slow
test-slow: $(FULL)  ## run the long proofs, and property tests on 1,000 examples each
	@$(PYTEST) -m "slow or hypothesis" --hypothesis-profile=slow $(ARGS) </dev/null

.PHONY: reliability
reliability: $(DEV)  ## try to break it, by the goals R1 to R28 (hours; ARGS="R1 R16": some); writes the table of docs/reliability.md
	@$(ONE_THREAD) $(BIN)/python -m tests.faults.reliability $(ARGS) </dev/null

.PHONY: check
check: $(FULL)  ## formatting, lint, types and the direction of imports; installs PyTorch, whose types it reads
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: $(DEV)  ## put the code into the house format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(DEV)  ## build the documentation as a site into site/; open site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict </dev/null
	@echo "site/index.html"

.PHONY: clean
clean:  ## remove .venv, caches and builds; results of runs stay
	@rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests benchmarks examples experiments -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help:  ## show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile
	@printf '\nPYTHON=python3.12 chooses the interpreter that .venv is made with (3.11 or newer).\n'

# ---------------------------------------------------------------------------- set-up

$(CORE): $(MADE) $(METADATA)
	@echo "Installing fielding and what it needs into $(VENV) ..."
	@$(PIP) -e . </dev/null
	@touch $@

$(DEV): $(MADE) $(METADATA)
	@echo "Installing fielding and the tools for its tests and checks into $(VENV) ..."
	@$(PIP) -e '.[dev]' </dev/null
	@touch $(CORE) $@

$(FULL): $(MADE) $(METADATA)
	@echo "Installing fielding with PyTorch and the tools for its tests and checks into $(VENV) ..."
	@$(PIP) -e '.[dev,torch]' </dev/null
	@touch $(CORE) $(DEV) $@

$(MADE):
	@$(find_python); \
	echo "Making $(VENV) with $$python ..."; \
	"$$python" -m venv --clear $(VENV) </dev/null
	@touch $@

# Sets $python to the first interpreter that is new enough and can make environments; else says what is missing.
define find_python
python=; problem="no python3 found; install Python 3.11 or newer, or name it with PYTHON=..."; \
for name in $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11); do \
	command -v "$$name" >/dev/null 2>&1 || { \
		[ -z "$(PYTHON)" ] || problem="PYTHON=$$name is no program here; give one of version 3.11 or newer"; continue; }; \
	version=$$("$$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' </dev/null 2>/dev/null) || { \
		problem="$$name does not run; install Python 3.11 or newer, or name it with PYTHON=..."; continue; }; \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' </dev/null || { \
		problem="$$name is Python $$version; install 3.11 or newer, or name it with PYTHON=..."; continue; }; \
	"$$name" -c 'import ensurepip, venv' </dev/null 2>/dev/null || { \
		problem="$$name ($$version) has no venv; install it (Debian: apt-get install python$$version-venv)"; continue; }; \
	python=$$name; break; \
done; \
[ -n "$$python" ] || { echo "make: $$problem" >&2; exit 1; }
endef
