# Every verb runs in the checkout's own .venv; `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup requirements up down status logs demo crash-matrix spike chaos simulate bench \
  test check format synth package

PYTHON_BIN := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# emulator: a local AWS in the .venv; localstack: LocalStack itself, in Docker
export LOCAL_AWS ?= emulator
# how many test processes; two cores are what CI has
WORKERS ?= 2
# more arguments for the command behind a verb: make test ARGS="-k reserve"
ARGS ?=
CODE := $(wildcard layer functions infra localstack migrations examples benchmarks tests docs)
TYPED := $(wildcard layer functions infra localstack examples benchmarks tests docs)

help: ## list these verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with everything in it (the other verbs do it when needed)
	@tools/setup.sh

requirements: setup ## compile requirements/*.in into pinned files (ARGS=--upgrade moves the pins)
	@tools/requirements.sh $(ARGS)

up: setup ## start Postgres and a local AWS, deploy to it, write .local/env
	@$(PYTHON_BIN) -m localstack up $(ARGS)

down: ## stop all that `up` started; the database is kept
	@[ ! -x $(PYTHON_BIN) ] || $(PYTHON_BIN) -m localstack down $(ARGS)

status: setup ## say what runs, and where
	@$(PYTHON_BIN) -m localstack status $(ARGS)

logs: setup ## show the logs of what runs (ARGS names one part)
	@$(PYTHON_BIN) -m localstack logs $(ARGS)

demo: setup ## kill a worker after the target committed, and watch one charge stay one charge
	@$(PYTHON_BIN) -m examples.crash_matrix demo $(ARGS)

crash-matrix: setup ## kill at every point of every class, and count charges (QUICK=1: minutes; DEPLOYED=1: kill Lambdas)
	@$(PYTHON_BIN) -m examples.crash_matrix $(if $(filter-out 0,$(DEPLOYED)),deployed,matrix) $(if $(filter-out 0,$(QUICK)),--quick) $(ARGS)

chaos: setup ## kill workers and reconcilers at random for a minute under 500 effects
	@$(PYTHON_BIN) -m tests.chaos.storm $(ARGS)

spike: setup ## the same crash through other systems, installed for it, and through this one
	@$(PYTHON_BIN) -m examples.spike $(ARGS)

simulate: setup ## run seeded histories of workers, crashes and late answers (SEEDS=100000)
	@$(PYTHON_BIN) -m tests.simulation $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

bench: setup ## measure against a bare durable insert on this machine (QUICK=1: two minutes)
	@$(PYTHON_BIN) -m benchmarks $(if $(filter-out 0,$(QUICK)),--quick) $(ARGS)

test: setup ## run the tests (EFFECT_BROKER_TEST_POSTGRES=16 for the other server)
	@$(PYTHON_BIN) -m pytest -n $(WORKERS) --dist loadfile --durations 15 $(ARGS)

check: setup ## format, lint, types, import contracts, generated files: the one gate
	ruff format --check $(CODE)
	ruff check $(CODE)
	mypy $(TYPED)
	lint-imports --no-logo
	$(PYTHON_BIN) -m docs.generate --check

format: setup ## format, and fix what can be fixed safely
	ruff check --fix-only --quiet $(CODE)
	ruff format $(CODE)

synth: setup ## make the production template and check it
	@$(PYTHON_BIN) -m infra synth $(ARGS)

package: setup ## build the wheel and the source archive into dist/
	@rm -rf dist && $(PYTHON_BIN) -m build --no-isolation $(ARGS)
