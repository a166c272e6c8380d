# Every target sets up what it needs; `make test` on a fresh clone needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The pages are made by `collector build` just before; the notice is about the theme's end of life (ARCHITECTURE.md).
SITE := COLLECTOR_PAGES_BUILT=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.PHONY: install demo test check lint site browser screenshots serve real docker benchmark calibrate clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The whole dual-3090 sweep on the embedded engine, and its site. Four starts fail as published: exit code 1.
demo: install
	rm -rf build/demo && mkdir -p build/demo
	$(BIN)/collector sweep plans/dual-3090.yaml --engine emulated --out build/demo || test $$? -eq 1
	cp -r data/published build/demo/
	$(BIN)/collector build --data build/demo
	$(SITE) build --strict
	$(SITE) build --strict -f mkdocs.en.yml
	@echo "The site of the emulated campaign is in site/; look at it with: $(BIN)/python -m http.server -d site -b 127.0.0.1"

test: install
	$(BIN)/python -m pytest -q -n auto --dist loadfile

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

site: install
	$(BIN)/collector build
	$(SITE) build --strict
	$(SITE) build --strict -f mkdocs.en.yml

# The built site in a real Chromium (it says so if there is none): errors, charts, search, phone, print, links.
browser: site
	$(BIN)/python -m pytest -q -m browser tests/browser

# The pictures of README, from the built site.
screenshots: site
	$(BIN)/python -m tests.browser.screenshots

serve: install
	$(BIN)/collector build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# Needs no real engine and no clock, so all cores share it; beside a real engine nothing else runs.
EMULATED := tests/real/test_crash_whole_plan.py

# A real vLLM on the CPU, made once a machine in a cache folder outside the clone.
real: install
	$(BIN)/python -m pytest -q -m real -n auto $(EMULATED)
	$(BIN)/python -m pytest -q -m real tests/real --ignore=$(EMULATED)

# Real containers: a small image of the embedded engine, and the real vLLM in one. Starts dockerd where none answers.
docker: install
	$(BIN)/python -m pytest -q -m docker tests/real

benchmark: install
	$(BIN)/python -m benchmarks.client_cost
	$(BIN)/python -m benchmarks.emulated_sweep
	$(BIN)/python -m benchmarks.sweep_overhead

# Fits the profile of the embedded engine to the published figures again (about a minute).
calibrate: install
	$(BIN)/python -m benchmarks.calibration

clean:
	rm -rf $(VENV) site build collector.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
