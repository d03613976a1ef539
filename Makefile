.PHONY: build lock
.DELETE_ON_ERROR:

PYTHON ?= python3
BIN := .venv/bin

build: .venv/ready

.venv/ready: requirements/dev.txt setup.py pyproject.toml $(wildcard cext/*)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

lock:
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--extra server --extra embedded --group dev -o requirements/dev.txt pyproject.toml
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		-c requirements/dev.txt --extra server -o requirements/server.txt pyproject.toml
