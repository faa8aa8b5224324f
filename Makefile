# Every target makes the environment it needs where it is missing, and brings it up to date when pyproject.toml or
# constraints.txt change. `make test PYTHON=python3.13 VENV=.venv-3.13` tests another Python beside the first.

PYTHON     ?= python3
VENV       ?= .venv
VENV_BENCH ?= .venv-bench

WORKERS      ?= auto
TESTS        ?=
PYTEST_ARGS  ?=
BENCH_ARGS   ?=
SOAK_MINUTES ?= 10
# Those that have tests; `make test-adapters ADAPTERS=langgraph` is one of them.
ADAPTERS     ?= $(patsubst tests/adapters/%/requirements.txt,%,$(wildcard tests/adapters/*/requirements.txt))

BIN  := $(VENV)/bin
PINS := pyproject.toml constraints.txt

# Quiet twice: nothing but errors.
INSTALL := -m pip install -qq --disable-pip-version-check --no-input -c constraints.txt

.PHONY: demo test test-adapters check bench soak constraints clean
.DELETE_ON_ERROR:

# Tests and benchmarks start hundreds of processes: let them find compiled modules.
unexport PYTHONDONTWRITEBYTECODE

demo: $(VENV)/.core
	@$(BIN)/outlast demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS) $(TESTS)

# The types of an adapter are checked where its framework is, by test-adapters.
check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --exclude '^src/outlast/adapters/\w+/' $(ADAPTERS:%=--exclude '^src/outlast/%\.py$$')
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pip check --disable-pip-version-check

test-adapters: $(addprefix test-adapter-,$(ADAPTERS))

# An environment for each framework: they pin what others need newer. TESTS chooses among the adapter's own tests.
test-adapter-%: .venv-%/.adapter
	.venv-$*/bin/mypy -p outlast.adapters.$* -m outlast.$*
	.venv-$*/bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS) \
	    $(or $(TESTS),tests/adapters/test_doors.py tests/adapters/$*)

bench: $(VENV_BENCH)/.bench
	$(VENV_BENCH)/bin/python -m benchmarks $(BENCH_ARGS)

# One process, no limit per test: a soak test ends by itself after OUTLAST_SOAK_MINUTES.
soak: $(VENV)/.test
	OUTLAST_SOAK_MINUTES=$(SOAK_MINUTES) $(BIN)/python -m pytest -m soak --timeout 0 $(PYTEST_ARGS) $(TESTS)

# Resolves every extra anew, on the oldest Python that is supported, so that the pins hold on the newer ones too.
constraints:
	rm -rf .venv-constraints
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "constraints are resolved on Python 3.11")'
	$(PYTHON) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install -qq --disable-pip-version-check --no-input -e '.[postgres,test,bench]'
	.venv-constraints/bin/python -m pip freeze --disable-pip-version-check --exclude-editable > constraints.txt
	rm -rf .venv-constraints

# The pins of one adapter's environment: `make constraints-langgraph`.
constraints-%:
	rm -rf .venv-constraints
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "constraints are resolved on Python 3.11")'
	$(PYTHON) -m venv .venv-constraints
	.venv-constraints/bin/python -m pip install -qq --disable-pip-version-check --no-input \
	    -r tests/adapters/$*/requirements.txt
	.venv-constraints/bin/python -m pip freeze --disable-pip-version-check --exclude-editable > constraints/$*.txt
	rm -rf .venv-constraints

clean:
	rm -rf .venv .venv-* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python $(VENV_BENCH)/bin/python $(ADAPTERS:%=.venv-%/bin/python):
	@echo "making $(@:/bin/python=) with $(PYTHON)"
	@$(PYTHON) -m venv $(@:/bin/python=)

$(VENV)/.core: $(PINS) | $(VENV)/bin/python
	@echo "installing outlast into $(VENV)"
	@$(BIN)/python $(INSTALL) -e .
	@touch $@

# The test extra contains the core: its stamp covers both, or `make demo` would install again after `make test`.
$(VENV)/.test: $(PINS) | $(VENV)/bin/python
	@echo "installing outlast and its test tools into $(VENV)"
	@$(BIN)/python $(INSTALL) -e '.[test]'
	@touch $(VENV)/.core $@

$(VENV_BENCH)/.bench: $(PINS) | $(VENV_BENCH)/bin/python
	@echo "installing outlast and what it is compared with into $(VENV_BENCH)"
	@$(VENV_BENCH)/bin/python $(INSTALL) -e '.[bench]'
	@touch $@

$(ADAPTERS:%=.venv-%/.adapter): .venv-%/.adapter: pyproject.toml constraints/%.txt tests/adapters/%/requirements.txt | .venv-%/bin/python
	@echo "installing outlast and $* into .venv-$*"
	@.venv-$*/bin/python $(subst constraints.txt,constraints/$*.txt,$(INSTALL)) -r tests/adapters/$*/requirements.txt
	@touch $@
