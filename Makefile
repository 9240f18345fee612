# Everything runs in .venv; nothing but Python 3.11 or newer and make is needed.

VENV   := .venv
BIN    := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed (set PYTHON=/path/to/python3)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.installed: setup.cfg pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing into $(VENV), which takes a minute..."
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/test.installed: $(VENV)/run.installed
	$(PIP) install -c constraints.txt -e '.[test]'
	@touch $@

$(VENV)/lint.installed: $(VENV)/test.installed
	$(PIP) install -c constraints.txt -e '.[test,lint]'
	@touch $@

.PHONY: install
install: $(VENV)/run.installed ## Install the server into .venv

.PHONY: run
run: $(VENV)/run.installed ## Serve the example namespace on https://127.0.0.1:10250 (Ctrl-C ends it)
	@mkdir -p run
	$(BIN)/quota-admission serve --standalone examples/namespace/policies --state run/usage.db --cert-dir run/certs

.PHONY: test
test: $(VENV)/test.installed ## Run all tests; what is left out is said at the end, with the reason
	$(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: controlplane
controlplane: $(BIN)/python ## Build the Kubernetes that some tests run against (needs Go; once, about 15 minutes)
	$(BIN)/python -m tests.cluster.build

.PHONY: playground
playground: $(VENV)/test.installed controlplane ## Start a control plane with everything running, and say what to type next
	$(BIN)/python -m tests.cluster.playground

.PHONY: vectors-cluster
vectors-cluster: $(VENV)/test.installed controlplane ## Play all recorded requests against a real API server (some minutes)
	$(BIN)/python -m tests.cluster.vectors

.PHONY: chaos
chaos: $(VENV)/test.installed controlplane ## Kill replicas for ten minutes and count (SECONDS=600)
	$(BIN)/python -m tests.cluster.chaos --seconds $(or $(SECONDS),600)

.PHONY: lint
lint: $(VENV)/lint.installed ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

.PHONY: fmt
fmt: $(VENV)/lint.installed ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(VENV)/test.installed ## Measure: a decision, throttles, the server, the start (prints figures, keeps nothing)
	$(BIN)/python -m bench

.PHONY: clean
clean: ## Remove everything that was made, .venv and the usage of `make run` included
	rm -rf $(VENV) run build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
