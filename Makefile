# Two commands are enough: `make demo` shows Weir at work, `make test` proves it. Both set up what is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup servers demo test lint clean

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml scripts/setup
	PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup
	touch $@

demo: setup
	$(BIN)/weir demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy src tests
	$(BIN)/lint-imports

servers:
	scripts/setup servers

test: lint servers
	$(BIN)/pytest

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
