# Two commands: `make demo` sets everything up and trains on a real table, `make test` runs the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FAST := not slow and not site and not server and not night

# Where it is set, each of many processes would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-fast test-nightly lint bench speed audit torture docs changelog wheel check clean

demo: $(VENV)/demo.ready
	$(BIN)/dpforest demo

# While one writes: a minute on two cores, after kernels are compiled.
test-fast: $(VENV)/dev.ready
	$(BIN)/pytest -n 2 -m '$(FAST)'

# All that guards a landing: ten minutes. Fails if the fast lane leaves a line of the private path (see [tool.coverage.run]) unexecuted.
test: $(VENV)/dev.ready $(VENV)/browser.ready $(VENV)/axe.ready $(VENV)/server.ready
	$(BIN)/pytest -n 2 -m '$(FAST)' --cov
	$(BIN)/pytest -n 2 -m '(slow or site or server) and not night'

# Hours: new random examples, whole crosses, full audits, 1,000 kills, the papers' tables, and every known mistake.
test-nightly: $(VENV)/dev.ready $(VENV)/browser.ready $(VENV)/axe.ready $(VENV)/server.ready
	HYPOTHESIS_PROFILE=night DPFOREST_AUDIT=full $(BIN)/pytest -n 2
	$(BIN)/python -m tests.torture.run
	$(BIN)/python -m tests.mutants --jobs 2
	$(BIN)/python -m benchmarks papers --quick --results $(VENV)/papers.jsonl

lint: $(VENV)/dev.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@# What fit returns in the README's example is known to be what was fitted.
	@{ sed -n '/^```python/,/^```$$/{/^```/!p;/^```$$/q}' README.md; \
		echo 'import typing; typing.assert_type(model, DPForestClassifier)'; } > $(VENV)/readme.py
	$(BIN)/mypy $(VENV)/readme.py
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_claims.py
	$(BIN)/python -m scripts.readme_figures --check
	$(BIN)/python scripts/audit_page.py --check
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml

bench: $(VENV)/dev.ready
	$(BIN)/python -m benchmarks foundation
	$(BIN)/python -m benchmarks papers --quick --results $(VENV)/papers.jsonl

# Half an hour or more on a machine that does nothing else.
speed: $(VENV)/dev.ready
	$(BIN)/pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks speed --results $(VENV)/speed.jsonl --report docs/bench

# Everything that is tried to break the claims. Printed algorithms are among them, so something is found: exit code 1.
audit: $(VENV)/dev.ready
	mkdir -p docs/audit
	$(BIN)/dpforest audit --recipe all --variant all --pairs 1000 --trials 20000 --attack survey --json \
		> docs/audit/results.json || test $$? -eq 1
	$(BIN)/python scripts/audit_page.py
	DPFOREST_AUDIT=full $(BIN)/pytest -n 2 tests/audit

# Kills, races, full disks and 30,000 mutated files: about a quarter of an hour. As root it also mounts small disks to fill up.
torture: $(VENV)/dev.ready
	$(BIN)/python -m tests.torture.run

# The site, in site/: open site/index.html. Warnings are errors (with --quiet mkdocs would not see them).
docs: $(VENV)/dev.ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir site

# What the next release changes, as it will stand in CHANGELOG.md. `towncrier build` writes it there and takes the fragments away.
changelog: $(VENV)/dev.ready
	$(BIN)/towncrier build --draft

wheel: $(VENV)/dev.ready
	$(BIN)/python -m build --wheel --outdir dist

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

# The report is tested in a real browser. Where none can be installed, those tests skip and say so.
$(VENV)/browser.ready: | $(VENV)/bin/pip
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			&& apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
		|| echo "No browser: install chromium to test the report."
	@touch $@

# What people who cannot see the report, or have no mouse, would stumble over is looked for by axe-core.
$(VENV)/axe.ready: | $(VENV)/bin/pip
	@npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core@4 >/dev/null \
		|| echo "No axe-core: install Node.js to test whether everybody can use the report."
	@touch $@

# Training inside PostgreSQL is tested with a real server, which the tests start and stop.
$(VENV)/server.ready: | $(VENV)/bin/pip
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			&& apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null; } \
		|| echo "No database server: install PostgreSQL to test training inside it."
	@touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
