# Two commands from a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := $(VENV)/.installed-peers
JOBS ?= auto
# --quiet would hide the warnings that --strict counts, so that nothing could fail.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

.PHONY: setup run test lint format docs bench clean
.DEFAULT_GOAL := run

# uv installs in seconds what pip installs in minutes; where it cannot be had, pip does the same.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a minute or so) ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt uv \
	  && $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt --editable '.[dev]' \
	  || $(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

# Stable-Baselines3, which some tests train with, needs torch. That comes by pip: it heeds settings
# (such as PIP_FIND_LINKS) that lead to torch's builds for CPUs, a tenth of the size.
$(PEERS): $(STAMP)
	@echo "installing what the tests compare with ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[sb3]'
	@touch $(PEERS)

setup: $(STAMP)  ## create .venv and install the package with its development tools

run: setup  ## the main job
	@$(BIN)/scrl demo

# A file's tests stay together, and some folders (see tests/conftest.py): what they share is trained
# and compiled once. These folders come first, so that no worker waits for another at the end.
test: setup $(PEERS)  ## all tests
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadscope --no-loadscope-reorder

lint: setup $(PEERS)  ## format, lint, types, import contracts, docs
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/pyright
	@$(BIN)/lint-imports
	@$(MKDOCS)

format: setup
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

docs: setup  ## the manual, into site/
	@$(MKDOCS)

bench: setup  ## the long measurements
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) site build dist .pytest_cache .ruff_cache
