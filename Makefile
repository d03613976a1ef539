HASH := \#
# `make help` prints each target that has a comment.
TARGETS := sed -n 's/^\([a-z0-9-]*\):.*$(HASH)$(HASH) */\1 /p' Makefile

.PHONY: help build serving mended meinheld lint types lint-workflows clean $(shell $(TARGETS) | cut -d' ' -f1)
.DELETE_ON_ERROR:

PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin
# pip would compile all packages to bytecode, which takes longer than installing them. Serving compiles what it imports.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
PROGRESS := $(shell test -t 2 && echo --verbose)

# Each stage has a file in .venv, which is created when the stage is complete. With flock, one make installs at a time.
# With PYTHON=…, a .venv of another Python goes.
INSTALL = @$(if $(filter command,$(origin PYTHON)),$(IS_USABLE) || rm -rf .venv;) \
	$(if $(shell command -v flock),flock Makefile) $(MAKE) --no-print-directory --silent -j2

help:
	@$(TARGETS) | while read -r target text; do printf 'make %-19s%s\n' "$$target" "$$text"; done

build:  ## .venv with sepu and the development tools
	$(INSTALL) .venv/tools

serving:
	$(INSTALL) .venv/packages .venv/core

# Keeps what was installed into a .venv that was made as the README says.
IS_USABLE = .venv/bin/python -c 'import sys, pip; sys.exit(sys.version != sys.argv[1])' \
	"$$($(PYTHON) -c 'import sys; print(sys.version)')" 2> /dev/null

.venv/python:
	sh requirements/check-python.sh $(PYTHON)
	echo "sepu: making a Python environment in .venv (some 5 seconds; each step takes longer on a busy machine)"
	$(PYTHON) -m venv $$($(IS_USABLE) || echo --clear) .venv
	touch $@

# pip writes INSTALLER last. A package without it was interrupted, and pip would take it for installed.
mended: .venv/python
	for package in .venv/lib/*/site-packages/*.dist-info; do test -f $$package/INSTALLER || rm -rf $$package; done

.venv/packages: requirements/embedded.txt | mended
	echo "sepu: installing the packages that serving needs (190 of 230 MB, some 20 seconds)"
	$(PIP) $(PROGRESS) --require-hashes -r $<
	touch $@

.venv/core: requirements/core.txt setup.py pyproject.toml $(wildcard cext/*) | mended
	echo "sepu: compiling the core (some 20 seconds)"
	$(PIP) --require-hashes -r $<
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

.venv/tools: requirements/dev.txt client/pyproject.toml | .venv/packages .venv/core
	echo "sepu: installing the development tools (420 MB more, some 30 seconds)"
	$(PIP) $(PROGRESS) --require-hashes -r $<
	$(PIP) --no-deps --no-build-isolation --editable client
	$(BIN)/python -m compileall -qq -j 2 .venv/lib || true
	touch $@

meinheld: .venv/meinheld-ready

# Two compiler flags correct meinheld; without them a slow reader of a large response stops the worker:
# - meinheld has a copy of greenlet 0.4's header, and greenlet 3 has another layout. `-include greenlet.h` reads the
#   right header first, and then the copy has no effect.
# - With deferred epoll deletes, meinheld never waits for a writable socket on a kept-alive connection.
# CFLAGS replaces Python's own flags, so those are repeated. pip's cache ignores flags, so it is not used.
MEINHELD_PIP := $(PIP) --require-hashes --no-deps --no-cache-dir --no-build-isolation --use-pep517

.venv/meinheld-ready: requirements/meinheld.txt | build
	@if ! $(BIN)/python -c 'import sys; sys.exit((sys.platform, sys.implementation.name, *sys.version_info[:2]) \
			not in {("linux", "cpython", 3, 11), ("linux", "cpython", 3, 12)})'; then \
		echo "meinheld skipped: it works on Linux with CPython 3.11 and 3.12 only"; \
	elif ! { sed '/^meinheld/,$$d' $< | $(MEINHELD_PIP) -r /dev/stdin && \
		greenlet=$$($(BIN)/python -c 'import greenlet; print(*greenlet.__path__)') && \
		CPATH="$$greenlet" CFLAGS="-O2 -DNDEBUG -fwrapv -fstack-protector-strong \
			-DPICOEV_EPOLL_DEFER_DELETES=0 -include greenlet.h" $(MEINHELD_PIP) -r $< && \
		$(BIN)/python -c 'import meinheld.server'; } > .venv/meinheld.log 2>&1; then \
		echo "meinheld skipped: it did not build, .venv/meinheld.log says why"; \
	else touch $@; fi

serve: serving  ## the service on this machine, with its own Postgres [PORT=8000]
	@$(BIN)/sepu serve --port $(PORT)

# Four files at a time, even on two cores: tests spend two thirds of their time waiting.
# Bytecode is written even if the environment forbids it: the many processes then compile less.
PYTEST_ALL := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

test: lint types  ## what a change needs, in minutes: lint, types and all tests but the slow ones
	$(PYTEST_ALL) -m 'not slow'

test-all: lint types meinheld build/strangers/ready $(if $(shell command -v npm),build/npm/ready)  ## lint, types and all tests
	$(PYTEST_ALL)

CHOSEN ?= -m 'not slow'

coverage: build  ## the lines and branches of src that `make test` runs [CHOSEN="": make test-all]
	rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/coverage run -m pytest -n 4 --dist loadfile $(CHOSEN) || echo "some tests failed: the report lacks their lines"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered

lint: build  ## ruff
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: build  ## mypy --strict
	$(BIN)/mypy

# Builds into another directory, so that .venv keeps the normal core. Python itself leaks at exit, so leaks are not
# reported. Its own allocator would hide overruns, so malloc is used.
SANITIZE := -fsanitize=address,undefined
SANITIZED = LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	UBSAN_OPTIONS=print_stacktrace=1 PYTHONPATH=build/sanitize $(BIN)/python

sanitize: build  ## the core's tests, and random pictures for a minute, under gcc's address and undefined-behaviour sanitizers
	CC=gcc CFLAGS="-g -fno-omit-frame-pointer -fno-sanitize-recover $(SANITIZE)" LDFLAGS="$(SANITIZE)" \
		$(BIN)/python -W ignore setup.py --quiet build --build-lib build/sanitize --build-temp build/sanitize-objects
	$(SANITIZED) -c 'from sepu import _index_builder, _names, _palette; \
		assert all("sanitize" in core.__file__ for core in (_index_builder, _names, _palette))'
	SEPU_FUZZ_SECONDS=60 SEPU_FUZZ_SEED=$$(date +%s) $(SANITIZED) -m pytest --capture=sys -o timeout=600 \
		tests/core tests/search tests/operations tests/fuzz/test_fuzz.py::test_picture

SEED ?= 1

SOAK := --requests $(or $(REQUESTS),100000) --worker $(or $(WORKER),uvloop) --workers $(or $(WORKERS),2) \
	--accounts $(or $(ACCOUNTS),0) --flood $(or $(FLOOD),0) --revoked $(or $(REVOKED),0) \
	--citus $(or $(CITUS),0)

soak: build  ## 100,000 requests while workers, Postgres and connections are killed; REQUESTS, WORKER, WORKERS, ACCOUNTS, FLOOD, REVOKED, CITUS
	@$(BIN)/python -m tests.faults $(SOAK) --seed $(SEED)

soak-client: build  ## calls of both clients through a server that cuts, delays, doubles and rewrites [CALLS=10000]
	SEPU_CALLS=$(or $(CALLS),10000) $(BIN)/pytest -n 0 -m slow tests/faults/test_client.py -k hostile_server

test-pgbouncer: build  ## the contract and the fault harness through PgBouncer
	$(BIN)/pytest -k pgbouncer

test-citus: build  ## the ledger on a Citus cluster [SEPU_CITUS_PG_CONFIG=the pg_config of a Postgres with Citus]
	$(BIN)/pytest tests/citus

SCHEDULES ?= 1000000

prove-batcher: build  ## the batcher in a million simulated schedules with faults [SCHEDULES=1000000]
	SEPU_SCHEDULES=$(SCHEDULES) $(BIN)/pytest -n 0 --timeout 0 -m slow tests/schedules

prove-ledger: build  ## faults put into the ledger and the client, one at a time, and the test that notices each [JOBS=2 MUTANTS="names" CHECK=tests/…]
	@$(BIN)/python -m tests.mutants.prove $(if $(JOBS),--jobs $(JOBS)) $(if $(CHECK),--check $(CHECK)) $(MUTANTS)

build/mutmut/ready: requirements/mutate.txt | build
	rm -rf build/mutmut
	$(PIP) --require-hashes --no-warn-script-location --target build/mutmut -r $<
	@touch $@

# mutmut looks for packages in ./src alone, so a copy has both there, and files in place of links.
mutate: build build/mutmut/ready  ## mutmut's faults in the client's policy, the parsers and billing, and those that no test notices [NAMES="sepu_client.retries.*"]
	rm -rf build/mutate && mkdir -p build/mutate
	cp -rL src tests data docs pyproject.toml build/mutate
	cp -rL client/src/sepu_client build/mutate/src
	cd build/mutate && export PYTHONPATH=$(CURDIR)/build/mutmut && python=$(CURDIR)/$(BIN)/python && \
		$$python -m tests.harness.postgres $$python -m mutmut run $(patsubst %,"%",$(NAMES)) && $$python -m mutmut results

prove-ledger-model: build  ## requests and commands in any order against the ledger's model, for hours [EXAMPLES=100000 SEED=1]
	SEPU_EXAMPLES=$(or $(EXAMPLES),100000) $(BIN)/pytest -n 0 --timeout 0 -m slow --hypothesis-seed=$(SEED) tests/ledger_model

prove-search: build  ## the name index against the slow reference, for millions of queries
	@$(BIN)/python -m tests.search.prove $(SEED)

WHAT ?= wire
WORKER ?= uvloop
SECONDS ?= 300

fuzz: build meinheld  ## hostile input at one boundary, for minutes [WHAT=wire SECONDS=300 SEED=1 WORKER=uvloop]
	@WORKER=$(WORKER) SEPU_FUZZ_SECONDS=$(SECONDS) SEPU_FUZZ_SEED=$(SEED) $(BIN)/pytest -rA --timeout 0 \
		-k test_$(WHAT) tests/fuzz

walk: build  ## what the operators' pages say, command by command, on a fresh Debian [root, systemd-nspawn]
	@$(BIN)/python -m tests.walk

bench: build  ## the benchmarks of every layer and of the start-up; saves a record
	$(BIN)/pytest --benchmark-only --benchmark-columns=min,median,iqr,rounds --benchmark-sort=name \
		--benchmark-storage=bench/records --benchmark-autosave bench

bench-report: build  ## the last gate, benchmarks, load and peers, and the accepted costs, on one page: build/bench.html
	@$(BIN)/python -m bench.report build/bench.html

bench-gate: build  ## what a change costs, counted by valgrind in base and head; fails at 0.5 % more [BASE=a commit]
	@$(BIN)/python -m bench.gate check $(BASE)

bench-bisect: build  ## the commit that made a figure of the gate grow: FIGURE="request: match" GOOD=a commit [BAD=HEAD]
	@$(BIN)/python -m bench.gate bisect "$(FIGURE)" "$(GOOD)" "$(or $(BAD),HEAD)"

bench-gate-costs: build  ## the costs that commits have accepted, with their reasons
	@$(BIN)/python -m bench.gate costs

# Installs into another directory, so that .venv stays as it was tested.
build/peers/ready: requirements/bench.txt | build
	rm -rf build/peers
	$(PIP) --require-hashes --no-warn-script-location --target build/peers -r $<
	@touch $@

bench-peers: build build/peers/ready  ## the compiled core compared with alternatives
	@PYTHONPATH=build/peers $(BIN)/python -m bench.peers > build/peers.txt && cat build/peers.txt

load: build build/peers/ready  ## a real server under load compared with its floors, with targets [LOAD="--seconds 5 --rounds 5"]
	@$(BIN)/python -m bench.load run $(LOAD)
	@$(BIN)/python -m bench.load run --scenarios match-1,match-5x3,replay --connections 1,2,4,8,16,32,64,128
	@$(BIN)/python -m bench.load clients
	@$(BIN)/python -m bench.load neighbours

build/advisories/ready: requirements/advisories.txt
	rm -rf build/advisories
	$(PYTHON) -m venv build/advisories
	build/advisories/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

advisories: serving build/advisories/ready  ## known vulnerabilities of all locks and the embedded Postgres; asks PyPI, npm and postgresql.org
	@$(BIN)/python -m tools.advisories

build/npm/ready: requirements/npm/package.json requirements/npm/package-lock.json
	@command -v npm > /dev/null || { echo "sepu: npm is missing (Debian: apt install npm)" >&2; exit 1; }
	rm -rf build/npm
	mkdir -p build/npm
	cp $^ build/npm
	cd build/npm && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# In an environment of its own, so that .venv stays as it was tested.
build/strangers/ready: requirements/strangers.txt
	rm -rf build/strangers
	$(PYTHON) -m venv build/strangers
	build/strangers/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# As in `make test-all`, but a test whose programs are missing fails.
generators: build build/npm/ready  ## the OpenAPI document's validators, and generated clients in four languages
	SEPU_TEST_ALL=yes $(BIN)/pytest tests/generators

integrate: build build/npm/ready  ## the clients of docs/integrate, the Postman collection and the .http file; none may be skipped
	SEPU_TEST_ALL=yes $(BIN)/pytest -n 2 --dist loadfile tests/integrate

build/docs/ready: requirements/docs.txt
	rm -rf build/docs
	$(PYTHON) -m venv build/docs
	build/docs/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# Without this variable, MkDocs prints an advertisement for the successor of its theme.
docs: build/docs/ready  ## the documentation site: build/site/index.html
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build
	@echo "build/site/index.html; the search box needs a server: python3 -m http.server --directory build/site"

test-site: build build/docs/ready $(if $(shell command -v npm),build/npm/ready)  ## the site in a real browser: no page is wider than the window
	SEPU_TEST_ALL=yes $(BIN)/pytest tests/docs/test_site.py

recipes: build  ## the recipes of docs/recipes, with pandas, Django and others, which this installs
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/recipes.txt
	SEPU_TEST_ALL=yes $(BIN)/pytest -n 0 tests/docs/test_recipes.py

pictures: build  ## draw the documentation's pictures again from the library, and run its notebook
	$(BIN)/python tools/site/pictures.py
	$(BIN)/python tools/site/notebook.py

screenshots: build build/npm/ready  ## take the pictures of docs/console.md again, in Chromium
	$(BIN)/python -m tools.site.screenshots

dashboard: build  ## draw the dashboard's picture again, from a real service and a real Prometheus
	$(BIN)/python -m tools.site.dashboard

build/wheel/ready: requirements/wheel.txt
	rm -rf build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# These targets need no .venv and no compiler: the requirements include zig's.
WHEEL = build/wheel/bin/python -m tools.dist

sdist:  ## the source distribution, alone in dist/
wheel:  ## sdist and wheel, checked, and tried with every CPython here: dist/
reproduce:  ## whether a rebuild equals dist/, byte for byte
client:  ## sepu-client, as `make wheel` and `make reproduce` do it: client/dist/
sdist wheel reproduce client: build/wheel/ready
	$(WHEEL) $@

answers: build  ## hash a million matches and many searches, which every machine must answer alike: tests/operations/answers.txt
	$(BIN)/python -m tests.operations.answers

check-dist: build/wheel/ready  ## check whatever is in dist/
	$(WHEEL) check

# [tool.cibuildwheel] in pyproject.toml has the same.
CORE_TESTS := tests/core tests/search tests/operations tests/library tests/test_library_use.py

test-core: build  ## the tests that need only the library
	$(BIN)/pytest $(CORE_TESTS)

# actionlint's package fetches the program from its project's releases, which may be unreachable.
WORKFLOWS_PIP := build/workflows/bin/pip install --quiet --disable-pip-version-check --require-hashes

build/workflows/ready: requirements/workflows.txt
	rm -rf build/workflows
	$(PYTHON) -m venv build/workflows
	sed '/^actionlint/,/==/{/^actionlint/d;/^    --hash/d}' $< | $(WORKFLOWS_PIP) -r /dev/stdin
	$(WORKFLOWS_PIP) -r $< > build/workflows/actionlint.log 2>&1 || \
		echo "actionlint skipped: it could not be fetched, build/workflows/actionlint.log says why"
	@touch $@

lint-workflows: build/workflows/ready
	build/workflows/bin/zizmor --offline --no-progress --persona pedantic .github
	test ! -x build/workflows/bin/actionlint || build/workflows/bin/actionlint

workflows: lint-workflows build  ## lint the workflows, and run their commands here [JOBS="wheels/sdist tests/gate"]
	@$(BIN)/python -m tools.workflows $(JOBS)

release: serving  ## build data/release from data/facts, and everything that is made from it
	$(BIN)/python -m sepu.library.build data/facts data/release cext/spellings.pxi
	$(MAKE) --no-print-directory build
	$(BIN)/python -m tools.ambiguous_names
	$(MAKE) --no-print-directory answers pictures
	$(BIN)/python -m tests.docs.examples

prove-index: build  ## compare answers by an index with those without it, for each 8-bit colour
	@$(BIN)/python -m tests.core.prove_index

prove-match: build  ## compare the text of matches with Python's, for each 8-bit colour and each rounding tie
	$(BIN)/python -m tests.operations.prove

# Resolves for the oldest Python that we support. The server's lock has the versions that were tested.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

lock: build  ## resolve the pinned requirements again
	$(COMPILE) --upgrade --extra events --extra embedded --group dev -o requirements/dev.txt pyproject.toml
	$(COMPILE) -c requirements/dev.txt --extra events -o requirements/server.txt pyproject.toml
	$(COMPILE) -c requirements/dev.txt --extra events --extra embedded -o requirements/embedded.txt pyproject.toml
	$(COMPILE) -c requirements/dev.txt --group core -o requirements/core.txt
	$(COMPILE) -c requirements/dev.txt --group build -o requirements/build.txt
	$(COMPILE) -c requirements/dev.txt --group bench -o requirements/bench.txt
	$(COMPILE) --group advisories -o requirements/advisories.txt
	$(COMPILE) --group docs -o requirements/docs.txt
	$(COMPILE) -c requirements/dev.txt --group recipes -o requirements/recipes.txt
	$(COMPILE) -c requirements/dev.txt --group core-test -o requirements/core-test.txt pyproject.toml
	$(COMPILE) -c requirements/dev.txt --group core-test -o requirements/client.txt client/pyproject.toml
	$(COMPILE) --group strangers -o requirements/strangers.txt
	$(COMPILE) -c requirements/dev.txt --group mutate -o requirements/mutate.txt
	$(COMPILE) -c requirements/dev.txt --group wheel -o requirements/wheel.txt
	$(COMPILE) --group workflows -o requirements/workflows.txt
	cd requirements/npm && npm update --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved
	printf 'greenlet>=3\nmeinheld==1.0.2\n' | $(COMPILE) --no-deps -o requirements/meinheld.txt -
	@$(BIN)/python -m tools.old_dependencies

clean:
	rm -rf .venv build dist src/*.egg-info src/sepu/_version.py client/build client/dist client/src/*.egg-info src/sepu/*.so
