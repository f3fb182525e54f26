# make demo   sets everything up and runs the main job on the example that ships
# make test   sets everything up, lints, and passes the tests
# make lint   ruff and mypy alone
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# uv installs several times faster than pip; it does not read pip's settings, so it is told of local wheels.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt

.PHONY: demo test lint format clean

demo: $(VENV)/.installed
	$(BIN)/treeformer demo --output demo

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) demo

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "treeformer needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@touch $@

$(VENV)/.installed: $(VENV)/.uv pyproject.toml constraints.txt
	$(INSTALL) -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.uv pyproject.toml constraints.txt
	$(INSTALL) -e '.[train,dev]'
	@touch $@ $(VENV)/.installed
