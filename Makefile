# Everything qcode needs is Python 3.11 or newer, pip and make. `make` shows the targets.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt
# The distribution was named qcode: removed later, it would take the new one's command along.
FORGET_OLD_NAME := $(BIN)/python -m pip --disable-pip-version-check -qqq uninstall --yes qcode
# pip compiles no editable package, and where Python may not write compiled files, each start would compile all of it.
COMPILE := $(BIN)/python -m compileall -q qcode
RAN := $(VENV)/tests.xml

.DEFAULT_GOAL := help
.PHONY: help run test test-all docs fuzz check fmt lint types arch snap-update pin-update search bench

help:
	@echo "make run [ARGS='-p hello']   start qcode"
	@echo "make test [ARGS=tests/tui]   run the tests"
	@echo "make test-all                the tests and the broad rest: every row of the large tables"
	@echo "make fuzz [ARGS='--count N'] random commands, judged and run under strace"
	@echo "make check                   what has to pass before a merge: lint, types, architecture, tests"
	@echo "make docs                    build the documentation site into site/"
	@echo "make fmt                     format the code and sort imports"
	@echo "make lint | types | arch     one of the checks"
	@echo "make snap-update             accept the screens of the app as they are now"
	@echo "make pin-update              record the behavior that tests/pins compares as it is now"
	@echo "make search                  the tests, with new random examples for those of properties"
	@echo "make bench                   the measurements of tests/perf"

run: $(VENV)/.runtime
	@$(BIN)/qcode $(ARGS)

test: $(VENV)/.test
	$(BIN)/python -m pytest $(ARGS)

test-all: $(VENV)/.test
	$(BIN)/python -m pytest -m "not perf" --hypothesis-profile=broad $(ARGS)

docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

fuzz: $(VENV)/.test
	$(BIN)/python -m tests.safety.shell.fuzz $(ARGS)

check: $(VENV)/.lint lint types arch docs
	$(MAKE) --no-print-directory test ARGS=--junit-xml=$(RAN) || $(BIN)/python .ci/again.py
	$(BIN)/python .ci/ran.py $(RAN)

fmt: $(VENV)/.test
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/python -m scripts.prose

types: $(VENV)/.test
	$(BIN)/mypy

arch: $(VENV)/.test
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -m "arch and not broad" tests/arch

snap-update: $(VENV)/.test
	$(BIN)/python -m pytest -m "not perf" tests/tui --snapshot-update $(ARGS)

pin-update: $(VENV)/.test
	$(BIN)/python -m pytest tests/pins -m "not perf" --accept-pins $(ARGS)

search: $(VENV)/.test
	$(BIN)/python -m pytest --hypothesis-profile=search $(ARGS)

bench: $(VENV)/.test
	$(BIN)/python -m pytest -n 0 -m perf -s tests/perf $(ARGS)

# A stamp is touched only after pip has succeeded, so an interrupted set-up starts again.
$(VENV)/.runtime: pyproject.toml constraints.txt | $(VENV)/.created
	@$(FORGET_OLD_NAME)
	@echo "Setting up $(VENV): downloading and installing packages takes a minute or two."
	@$(PIP) --editable .
	@$(COMPILE)
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/.created
	@$(FORGET_OLD_NAME)
	$(PIP) --editable '.[test,docs]'
	@$(COMPILE)
	@touch $(VENV)/.runtime $@

# The linters of Dockerfile and workflows are large; without them their tests are skipped.
$(VENV)/.lint: $(VENV)/.test
	$(PIP) --editable '.[lint]'
	@touch $@

# Some systems ship Python without ensurepip: there pip is put into the environment from outside.
$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo "qcode needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
		$(PYTHON) -m pip --quiet --python $(BIN)/python install pip
	@touch $@
