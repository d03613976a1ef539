# make serve [PORT=8000]   the service on this machine, with its own Postgres
# make test                lint, types and the whole test suite
# make lock                resolve the pinned requirements anew
# make release             build data/release from data/facts

.PHONY: build serve test lint types lock release clean
.DELETE_ON_ERROR:

PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

build: .venv/ready

.venv/ready: requirements/dev.txt setup.py pyproject.toml $(wildcard cext/*)
	@sh requirements/check $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements/dev.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

serve: build
	@$(BIN)/sepu serve --port $(PORT)

test: lint types
	$(BIN)/pytest

lint: build
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: build
	$(BIN)/mypy

release: build
	$(BIN)/python -m sepu.library.build data/facts data/release

# Built on the oldest Python that we support; the server's lock holds what was tested there.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

lock: build
	$(COMPILE) --upgrade --extra server --extra embedded --group dev -o requirements/dev.txt pyproject.toml
	$(COMPILE) -c requirements/dev.txt --extra server -o requirements/server.txt pyproject.toml

clean:
	rm -rf .venv build dist src/*.egg-info src/sepu/*.so
