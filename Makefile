# make demo       set up .venv, predict, draw and measure the example images
# make test       set up .venv for development, lint, run all tests
# make test-fast  lint, run the tests that are not marked slow
# make lint       ruff and mypy only
# make web        build the page of the editor into src/treeformer/web/static (needs Node.js 20.19 or newer)
# make page       build the static page, which predicts in the browser, into dist/page
# make check-page build the static page, check the sizes of its files, test it in Chromium
# make test-web   check, test and build the page, compare it with the committed one, test it in Chromium
# make docs       build the documentation site into dist/docs, run its notebooks, check links and the width of pages
# make package    build sdist and wheel, install the wheel into an empty environment without torch, predict;
#                 PACKAGES=FOLDER keeps the checked files
# make test-all   what make test leaves out: both web pages, the documents with their notebooks, the package
# make test-long  more examples per property test, tests marked long, cluster and kills with larger numbers
# make fuzz       10,000 mutated files, images and model folders; not part of make test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The model of the static page: make page MODEL=default or MODEL=path/to/folder
MODEL ?= small

# Compiled modules are kept, even if the environment says otherwise: compiling torch and Fabric in every process that a
# test starts takes 13 s of CPU time each.
unexport PYTHONDONTWRITEBYTECODE

# uv installs several times faster than pip; it does not read pip's settings, so local wheels are passed on.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt

.PHONY: demo test test-all test-long test-fast fuzz lint format web page check-page check-web test-web docs package clean

demo: $(VENV)/.installed
	$(BIN)/treeformer demo --output demo

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

fuzz: $(VENV)/.installed-dev
	$(BIN)/python -m tests.fuzz $(FUZZ)

test-fast: lint
	TREEFORMER_EXAMPLES=10 $(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not long"

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

web: web/node_modules/.installed
	cd web && npm run --silent build

page: web/node_modules/.installed $(VENV)/.installed-dev
	$(BIN)/treeformer export $(MODEL) --web --output dist/page-model
	cd web && npm run --silent page
	$(BIN)/python tools/check_page.py dist/page

check-page: page
	$(BIN)/python -m pytest -q tests/web/browser/test_static_page.py

check-web: web/node_modules/.installed
	cd web && npm run --silent check
	cd web && npm run --silent test
	cd web && npm run --silent build -- --outDir ../build/web
	diff -r build/web src/treeformer/web/static \
		|| { echo "the committed page is not the one of web/src: run make web and commit it" >&2; exit 1; }

test-web: check-web $(VENV)/.installed-dev
	$(BIN)/python -m pytest tests/web

test-all: check-web check-page docs package

# More examples per property test, the tests marked long, and larger numbers for cluster, web and kills.
test-long: page $(VENV)/.installed-dev
	TREEFORMER_EXAMPLES=200 $(BIN)/python -m pytest -q -n auto --dist worksteal -m hypothesis
	TREEFORMER_CLUSTER_IMAGES=60 TREEFORMER_CLUSTER_SMALL_IMAGES=2000 TREEFORMER_PAGE_IMAGES=40 TREEFORMER_REPLAYS=10000 \
		$(BIN)/python -m pytest -q -m "" tests/training/test_machines.py tests/inference/cluster/test_ray.py tests/web/test_measures.py \
		tests/web/test_replay.py tests/web/test_page_fixtures.py tests/web/test_page_images.py \
		tests/timeseries/test_series.py
	$(BIN)/python -m tests.fuzz.kills --count 10

web/node_modules/.installed: web/package-lock.json
	@npm --version > /dev/null || { echo "the page is built with Node.js: install node and npm" >&2; exit 2; }
	cd web && npm ci
	@touch $@

# The static page is part of the site if it can be built.
NODE := $(shell npm --version 2> /dev/null)

docs: $(VENV)/.installed-docs $(if $(NODE),page)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs dist/docs
	@rm -rf dist/docs/demo
	@if [ -n "$(NODE)" ]; then cp -r dist/page dist/docs/demo; else echo "no Node.js: the site has no /demo/" >&2; fi
	$(BIN)/python tools/check_site.py dist/docs
	@echo "open dist/docs/index.html"

package: $(VENV)/.installed-dev
	bash tools/check_package.sh $(BIN) $(PACKAGES)

clean:
	rm -rf $(VENV) demo dist build web/node_modules

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

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	$(INSTALL) -e '.[train,dev,docs]'
	@touch $@
