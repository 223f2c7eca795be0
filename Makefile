# Two commands: `make demo` sets everything up and trains on a real table, `make test` runs the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench speed audit check clean

demo: $(VENV)/demo.ready
	$(BIN)/dpforest demo

test: $(VENV)/dev.ready
	$(BIN)/pytest -n 2

lint: $(VENV)/dev.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_claims.py
	$(BIN)/python scripts/readme_table.py --check
	$(BIN)/python scripts/audit_page.py --check

bench: $(VENV)/dev.ready
	$(BIN)/dpforest bench foundation
	$(BIN)/dpforest bench papers --quick --results $(VENV)/papers.jsonl

# Half an hour or more on a machine that does nothing else.
speed: $(VENV)/dev.ready
	$(BIN)/pip install --quiet --editable '.[bench]'
	$(BIN)/dpforest bench speed --results $(VENV)/speed.jsonl --report docs/bench

# Everything that is tried to break the claims. Printed algorithms are among them, so something is found: exit code 1.
audit: $(VENV)/dev.ready
	mkdir -p docs/audit
	$(BIN)/dpforest audit --recipe all --variant all --pairs 1000 --trials 8000 --attack survey --json \
		> docs/audit/results.json || test $$? -eq 1
	$(BIN)/python scripts/audit_page.py
	DPFOREST_AUDIT=full $(BIN)/pytest -n 2 tests/audit

check: lint test

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "dpforest needs Python 3.11 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip

$(VENV)/demo.ready: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --editable '.[demo]'
	@touch $@

$(VENV)/dev.ready: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --editable '.[demo,test,lint]'
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
