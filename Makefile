PYTHON ?= python3
CODE = tograph samples tests

.DEFAULT_GOAL := help
.PHONY: help check format lint types layers tests programs differential fix

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-14s %s\n", $$1, $$2}'

check: format lint types layers tests  ## everything below but the last three

format:  ## is the code formatted?
	$(PYTHON) -m ruff format --check $(CODE)

lint:  ## ruff's rules
	$(PYTHON) -m ruff check $(CODE)

types:  ## mypy
	$(PYTHON) -m mypy tograph

layers:  ## directions of imports, cycles
	$(PYTHON) -m pytest -q tests/test_layers.py

tests:  ## all tests
	$(PYTHON) -m pytest -q -n auto --dist worksteal

programs:  ## more random programs than the tests of every run have
	TOGRAPH_TEST_PROGRAMS=1200 $(PYTHON) -m pytest -q -n auto tests/test_differential.py
	TOGRAPH_TEST_PROGRAMS=400 $(PYTHON) -m pytest -q -n auto tests/test_state_differential.py
	TOGRAPH_TEST_PROGRAMS=500 $(PYTHON) -m pytest -q -n auto tests/test_gradient_programs.py tests/test_inside_programs.py tests/test_nested_gradients.py

differential:  ## random programs, native against converted; SEEDS=0:2000
	$(PYTHON) -m tests.program_runner --seeds $(or $(SEEDS),0:2000) --shrink

fix:  ## format, and apply ruff's safe fixes
	$(PYTHON) -m ruff format $(CODE)
	$(PYTHON) -m ruff check --fix $(CODE)
