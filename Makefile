# Every target makes .venv itself. PYTHON chooses the interpreter that it is made from.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
PYTEST := $(RUN)/python -m pytest -q -n 2
# Two workers on two cores: one thread of BLAS each, or they wait for each other.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: train test lint types unit package fuzz bench clean

train: $(VENV)/run
	$(RUN)/chainrule train $(ARGS)

test: lint types unit package

lint: $(VENV)/dev
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

types: $(VENV)/dev
	$(RUN)/pyright

unit: $(VENV)/dev
	$(PYTEST)

package: $(VENV)/dev
	$(RUN)/python tests/package.py

fuzz: $(VENV)/dev
	$(PYTEST) tests/attacks -m fuzz

bench: $(VENV)/bench
	$(RUN)/python -m bench

clean:
	rm -rf $(VENV) dist

# What it takes to run chainrule, then what it takes to work on it, then its peers for benchmarks.
$(VENV)/run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/dev: $(VENV)/run
	$(RUN)/pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(RUN)/pip install --quiet --disable-pip-version-check --group dev
	touch $@

$(VENV)/bench: $(VENV)/dev
	$(RUN)/pip install --quiet --disable-pip-version-check --group bench
	touch $@
