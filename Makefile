PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
INSTALLED := $(VENV)/installed
APT_INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install --yes -qq --no-install-recommends

.PHONY: demo test check format tests slow browser clean

## make demo    train the paper's repeat copy until it is solved, and draw what it does
demo: $(INSTALLED)
	$(BIN)/dnclab demo

## make test    everything that must hold: format, lint, types, tests
test: check tests

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# Side by side, for the suite takes six minutes of one core, a fifth of them compiling.
tests: $(INSTALLED) browser
	$(BIN)/pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# The page of a report is tested in Chromium. Root on Debian, as CI is, gets it here; for anybody
# else the tests fail and say what to install.
browser:
	@command -v chromedriver >/dev/null || ! command -v apt-get >/dev/null || [ "$$(id -u)" != 0 ] || \
		{ apt-get update -qq && $(APT_INSTALL) chromium chromium-driver; }

## make slow    train the small presets until they are learnt, plain DNC and DNC-MDS: half an hour
slow: $(INSTALLED)
	$(BIN)/pytest -m slow

## make format  put the code into the form that `make check` wants
format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) hatchling editables
	$(INSTALL) --no-build-isolation --editable ".[test]"
	touch $@

## make clean   remove what make and the tools have made
clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
