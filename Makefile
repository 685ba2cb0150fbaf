# Everything a person types here. `make` alone prints the list below.

VENV   ?= .venv
PYTHON ?=
BIN    := $(VENV)/bin
OUT    ?= out
ARGS   ?=
# Two lanes share out the folders of tests; LANES= runs one test after another.
LANES  ?= -n 2

# What `make demo` looks at, with what, and which rules it applies; empty means the driver-monitoring camera.
CLIP  ?=
MODEL ?=
RULES ?=

# By way of the environment and unexpanded: a URL may hold `$`, quotes or a password.
export DEMO_CLIP = $(value CLIP)
export DEMO_MODEL = $(value MODEL)
export DEMO_RULES = $(value RULES)
export PYTHON

# The tests of what decides about motion, and of the memory and the files that it decides by.
GUARD_TESTS := $(patsubst %,tests/guard/test_%.py,acknowledging bug_kinds conditions explain in_time latch lease machine page profile refusals starving)
GUARD_TESTS += $(patsubst %,tests/guard/motion_gate/test_%.py,approvals estop judge limits outputs proposals settings verification)

.DEFAULT_GOAL := help
.PHONY: help setup assets demo demo-rollout test coverage guard-coverage mutation check bench trials soak docs format lint types imports clean lock

help: ## Print this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  make demo CLIP=video-or-URL MODEL=package-or-file.onnx RULES=rules.yaml   runs anything else'
	@echo '  make test ARGS="-k zones"                                                 runs a part'
	@echo '  make setup PYTHON=/path/to/python3.12                                     chooses the interpreter'

setup: $(VENV)/.stamp ## Make .venv from requirements.lock (Python 3.10 to 3.13, no root)

$(VENV)/.stamp: pyproject.toml requirements.lock deploy/setup.sh
	@sh deploy/setup.sh $(VENV)
	@touch $@

assets: setup ## Fetch the demo's model and clips into .cache (by version and sha256)
	@$(BIN)/python -m deploy.demo.assets

demo: assets ## Watch the whole road, from a camera to the fleet server, its cable pulled; results in out/demo
	@$(BIN)/python -m deploy.demo.run --out $(OUT)/demo $(ARGS)

demo-rollout: assets ## Watch signed versions go out in rings, and a damaged one be stopped; results in out/demo-rollout
	@$(BIN)/python -m deploy.demo.rollout.run --out $(OUT)/demo-rollout $(ARGS)

test: assets ## The short form of the tests, in two lanes (and guard-coverage where all of them run)
	@$(BIN)/pytest $(if $(strip $(ARGS)),,$(LANES)) $(ARGS)
ifeq ($(strip $(ARGS)),)
	@$(MAKE) --no-print-directory guard-coverage
endif

coverage: assets ## The same tests traced, child processes too, with the coverage floor (half as long again)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

guard-coverage: setup ## The state machine and the motion gate by their own tests: each line and each branch, or it fails
	@mkdir -p $(OUT)/guard-coverage
	@OUT=$(OUT) $(BIN)/coverage run --rcfile=tests/guard/coverage.ini -m pytest -q $(GUARD_TESTS)
	@OUT=$(OUT) $(BIN)/coverage report --rcfile=tests/guard/coverage.ini

mutation: setup ## Change the state machine and the motion gate in each place; a test has to fail (minutes; MODULES="look motion_gate.judge")
	@sh deploy/mutation.sh $(BIN)/python $(OUT)/mutation $(GUARD_TESTS)

check: lint types imports docs test ## What CI runs: format, lint, types, import contracts, docs, tests

bench: assets ## Measure speed against bare loops and peers (ratios in one run; minutes)
	@$(BIN)/python -m tests.bench $(ARGS)

trials: assets ## Long and repeated tests (tens of minutes)
	@$(BIN)/pytest -m trial -s --timeout 1800 $(ARGS)

soak: assets ## Runs of many minutes (EDGE_SOAK_MINUTES=10) against budgets of each process; results in out/soak
	@EDGE_SOAK_OUT=$(abspath $(OUT)/soak) $(BIN)/pytest -m soak -s --timeout 86400 $(ARGS)

docs: setup ## Build the documentation into build/site; a broken link or a stale page fails
	@$(BIN)/python -m docs.generate_reference --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: setup ## Format and sort imports in place
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet .

lint: setup ## Formatting and lint, without changing anything
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: setup ## mypy --strict
	@$(BIN)/mypy

imports: setup ## Import contracts: who may know whom
	@$(BIN)/lint-imports

lock: setup ## Resolve requirements.lock anew for every Python and extra
	@$(BIN)/python -m pip install --quiet uv
	@sh deploy/lock.sh $(BIN)/uv

clean: ## Remove what was built and measured; keeps .venv and .cache
	@rm -rf $(OUT) build dist .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
