# Two commands are enough: `make demo` shows Weir at work, `make test` proves it. Both set up what is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup servers clients demo test slow soak lint clean

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml scripts/setup
	PYTHON=$(PYTHON) VENV=$(VENV) scripts/setup
	touch $@

# SOURCES=servers: the same on a PostgreSQL and a MariaDB server, which it starts and stops itself.
SOURCES ?= sqlite
demo: setup $(if $(filter servers,$(SOURCES)),servers)
	$(BIN)/weir demo --sources $(SOURCES)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy src tests
	$(BIN)/lint-imports

servers:
	scripts/setup servers

# Delta clients that are not ours, in environments of their own: they read the tables in the tests.
clients: setup
	PYTHON=$(PYTHON) scripts/clients

# Two processes, each with a Spark session and servers of its own; a file's tests stay together.
test: lint servers clients
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

# What takes a minute or more each: stress, soak, clusters; then the fault matrix alone, because it looks at the lag of
# views that have nothing to do with a fault. CI runs it after `make test`.
slow: setup servers clients
	$(BIN)/pytest -n 2 --dist loadfile -m slow --ignore tests/faults
	$(BIN)/pytest -m slow tests/faults

# For a night: kill -9 at every named point, so many times each, and everything checked after every dozen. Not in CI.
KILLS ?= 100
soak: setup servers
	$(BIN)/python -m tests.runtime.many_deaths --times $(KILLS)

clean:
	rm -rf $(VENV) .places build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
