# Two commands from a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= auto
# --quiet would hide the warnings that --strict counts, so that nothing could fail.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

.PHONY: setup run test lint format docs bench clean
.DEFAULT_GOAL := run

# uv installs in seconds what pip installs in minutes; where it cannot be had, pip does the same.
# torch (for the tests with Stable-Baselines3) comes by pip, which heeds PIP_FIND_LINKS and
# PIP_EXTRA_INDEX_URL: with https://download.pytorch.org/whl/cpu there it is 200 MB and not gigabytes.
$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a minute or so) ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt uv torch \
	  && $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraint constraints.txt --editable '.[dev]' \
	  || $(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

setup: $(STAMP)  ## create .venv and install the package with its development tools

run: setup  ## the main job
	@$(BIN)/scrl demo

test: setup  ## all tests
	@$(BIN)/python -m pytest -n $(JOBS)

lint: setup  ## format, lint, types, import contracts, docs
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
