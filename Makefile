# Every target sets up what it needs; `make test` on a fresh clone needs Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The pages are made by `collector build` just before; the notice is about the theme's end of life (ARCHITECTURE.md).
SITE := COLLECTOR_PAGES_BUILT=1 NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

.PHONY: install test check lint site serve real benchmark clean

install: $(VENV)/installed

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

test: install
	$(BIN)/python -m pytest -q

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

serve: install
	$(BIN)/collector build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# A real vLLM on the CPU, made once a machine in a cache folder outside the clone.
real: install
	$(BIN)/python -m pytest -q -m real tests/real

benchmark: install
	$(BIN)/python -m benchmarks.client_cost

clean:
	rm -rf $(VENV) site build collector.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
