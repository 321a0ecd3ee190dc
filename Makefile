# Every target makes .venv itself. PYTHON chooses the interpreter that it is made from.
PYTHON ?= python3
VENV := .venv
MINIMUMS := .venv-minimums
# Python compiles a module when it is first imported: most of them never are.
INSTALL := pip install --quiet --disable-pip-version-check --no-compile
RUN := $(VENV)/bin
PYTEST := $(RUN)/python -m pytest -q -n 2 --dist worksteal
# Two workers on two cores: one thread of BLAS each, or they wait for each other.
export OPENBLAS_NUM_THREADS ?= 1
# Hundreds of tests start Python: it finds its bytecode, also where the environment forbids to write it.
export PYTHONDONTWRITEBYTECODE :=

# What runs on the oldest versions: the engine, NumPy's protocols, the compiler, training.
SMOKE := tests/ops/test_generated.py tests/interop/test_numpy_protocol.py tests/engine/test_random_programs.py \
	tests/scalar/test_scalar.py tests/cli/test_train.py \
	tests/compile/trace/test_jit.py tests/compile/test_random_programs.py

.PHONY: train play test lint types unit sweep package minimums fuzz bench docs clean

train: $(VENV)/run
	$(RUN)/chainrule train $(ARGS)

play: $(VENV)/run
	$(RUN)/chainrule play $(ARGS)

# The type checker and the package need one core each: they run beside the tests.
test: lint
	$(MAKE) --jobs=2 unit types package

lint: $(VENV)/dev
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

types: $(VENV)/dev
	$(RUN)/pyright

unit: $(VENV)/dev
	$(PYTEST)

sweep: $(VENV)/dev
	$(PYTEST) -m sweep

package: $(VENV)/dev
	$(RUN)/python tests/project/package.py

minimums: $(MINIMUMS)/made
	$(MINIMUMS)/bin/python -m pytest -q -n 2 $(SMOKE)
	$(MINIMUMS)/bin/python -m pytest -q tests/project/test_docs.py -k readme

fuzz: $(VENV)/dev
	$(PYTEST) tests/attacks -m fuzz

bench: $(VENV)/bench
	$(RUN)/python -m bench

docs: $(VENV)/dev
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build

clean:
	rm -rf $(VENV) $(MINIMUMS) build dist

# What it takes to run chainrule, then what it takes to work on it, then its peers for benchmarks.
$(VENV)/run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)/$(INSTALL) --editable .
	touch $@

$(VENV)/dev: $(VENV)/run
	$(RUN)/$(INSTALL) --upgrade "pip>=25.1"
	$(RUN)/$(INSTALL) --group dev
	touch $@

$(VENV)/bench: $(VENV)/dev
	$(RUN)/$(INSTALL) --group bench
	touch $@

$(MINIMUMS)/made: pyproject.toml tests/project/minimums.py
	$(PYTHON) -m venv --clear $(MINIMUMS)
	$(MINIMUMS)/bin/$(INSTALL) --upgrade "pip>=25.1"
	$(MINIMUMS)/bin/python tests/project/minimums.py > $(MINIMUMS)/oldest.txt
	$(MINIMUMS)/bin/$(INSTALL) \
		--requirement $(MINIMUMS)/oldest.txt --editable . --group pytest
	touch $@
