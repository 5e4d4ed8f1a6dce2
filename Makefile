# Everything runs in a virtual environment inside the checkout; nothing needs to be installed beforehand but Python.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# What else to install: EXTRAS=,coffea (1 GB) lets the tests of coffea run.
EXTRAS ?=
# Hundreds of tests start Python anew: each would compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lint types layers check bench states tools clean

help:
	@echo "make demo    make sample data, divide it, run a function and a real aligner over it, kill that, and go on;"
	@echo "             find the J/psi and the Z among pairs of muons"
	@echo "make test    lint, types, layers and all tests"
	@echo "make bench   measure beside the peers (three hours, 5 GB of disk); one part: .venv/bin/python -m bench pools"
	@echo "make clean   remove the virtual environment and all that these commands made"

demo: $(VENV)/.made tools
	@$(BIN)/python examples/divide_fastq.py
	@echo
	@$(BIN)/python examples/gc_histogram.py
	@echo
	@$(BIN)/python examples/align_reads.py
	@echo
	@$(BIN)/python examples/dimuon/dimuon.py --events 300_000

test: tools lint types layers check

check: $(VENV)/.made
	$(BIN)/pytest

lint: $(VENV)/.made
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.made
	$(BIN)/mypy

layers: $(VENV)/.made
	$(BIN)/lint-imports

bench: $(VENV)/.made tools
	@$(BIN)/pip install --quiet -e '.[bench]'
	@$(BIN)/python -m bench

states: $(VENV)/.made
	@$(BIN)/python -c 'from aliquot.coordinator.transitions import states_page; print(states_page(), end="")' > docs/states.md

tools:
	@tools/install_debian_tools

$(VENV)/.made: pyproject.toml
	@echo "making $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV) || { echo "no venv module: try 'apt-get install python3-venv'"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev$(EXTRAS)]'
	@touch $@

clean:
	rm -rf $(VENV) .aliquot demo-data bench-data .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
