# What a newcomer needs: `make demo` and `make test`. Both install what they need into .venv and nothing elsewhere.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# the system's own first: Debian builds it with profiles; one that was built from source without them takes longer
SYSTEM_PYTHON := /usr/bin/python3
PYTHON ?= $(shell $(SYSTEM_PYTHON) -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && \
	{ echo $(SYSTEM_PYTHON); exit; }; for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
# four workers for each core: most tests wait for the simulated environment most of the time
JOBS ?= $(shell echo $$((4 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2))))
# each worker begins with a part of the tests, and takes over from others when it is done: modules stay together
SHARED = -n $(JOBS) --dist worksteal
PYTEST_ARGS ?=
# of pip: errors only. It warns of every place of packages in its configuration that a package is not in
QUIET := --quiet --quiet
PLAYBOOK ?= playbooks/ai-ready-cluster.yml

# the tests start hundreds of processes that import the same files: compiled once, not in each of them
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo story test test-oldest-pyvmomi test-reliability test-reliability-all honesty check lint types architecture measures coverage changelog record bench lab docs site man wheel lock sbom clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "  make %-22s %s\n", $$1, $$2}'

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or later was not found as python3.11 or python3." >&2; \
		echo "On Debian 12: apt-get install python3 python3-venv. Elsewhere: make PYTHON=/path/to/python $(MAKECMDGOALS)" >&2; \
		exit 1; fi
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment. On Debian: apt-get install python3-venv" >&2; exit 1; }

# one stamp per set of packages: made again when the requirements change
$(VENV)/.installed: setup.cfg pyproject.toml | $(BIN)/python
	@echo "Installing vsphere-ai into $(VENV) ..."
	@$(BIN)/python -m pip $(QUIET) install --editable .
	@touch $@

$(VENV)/.installed-test: setup.cfg pyproject.toml | $(BIN)/python
	@echo "Installing vsphere-ai and what its tests need into $(VENV) ..."
	@$(BIN)/python -m pip $(QUIET) install --editable '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-dev: setup.cfg pyproject.toml | $(BIN)/python
	@echo "Installing vsphere-ai and what its developers need into $(VENV) ..."
	@$(BIN)/python -m pip $(QUIET) install --editable '.[test,dev]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed

demo: $(VENV)/.installed  ## plan and apply a playbook on a simulated environment, twice; needs no vCenter
	@set -eu; \
	VSPHERE_AI_STATE_DIR=$$(mktemp -d); export VSPHERE_AI_STATE_DIR; unset VSPHERE_AI_LAB_DIR; \
	PATH="$(abspath $(BIN)):$$PATH"; export PATH; \
	down() { vsphere-ai lab down >/dev/null 2>&1 || true; rm -rf "$$VSPHERE_AI_STATE_DIR"; }; \
	trap down EXIT; trap 'exit 130' INT; trap 'exit 143' TERM HUP; \
	say() { printf '\n\033[1m$$ vsphere-ai %s\033[0m\n' "$$*"; vsphere-ai "$$@"; }; \
	say lab up; \
	say plan -i inventories/lab.yml $(PLAYBOOK); \
	say apply -i inventories/lab.yml $(PLAYBOOK) --yes; \
	changes() { vsphere-ai lab status -o json | $(BIN)/python -c 'import json, sys; print(json.load(sys.stdin)["ledger"])'; }; \
	before=$$(changes); \
	say apply -i inventories/lab.yml $(PLAYBOOK) --yes; \
	after=$$(changes); \
	vsphere-ai plan -i inventories/lab.yml $(PLAYBOOK) --detailed-exitcode >/dev/null || { \
		echo "demo: after apply the plan is not empty" >&2; exit 1; }; \
	[ "$$before" = "$$after" ] || { echo "demo: the second apply changed $$((after - before)) things" >&2; exit 1; }; \
	say lab status; \
	say lab down; \
	printf '\nThe second apply changed nothing: the farm counted %s changes before it and %s after it.\n' "$$before" "$$after"

story: $(VENV)/.installed  ## a training job, a GPU that fails, a new VM, the same loss: on the simulated environment; needs no vCenter
	@$(BIN)/python -m tools.story docs/story.md

# journals are written through at every step; in memory that costs nothing, and for what dies by kill -9 it is the same
IN_MEMORY = $$(d=$$(mktemp -d /dev/shm/XXXXXX 2>/dev/null) || exit 0; \
	printf '\#!/bin/sh\n' > $$d/run && chmod +x $$d/run && $$d/run 2>/dev/null && \
	[ "$$(df -Pk /dev/shm | awk 'END {print $$4}')" -gt 4000000 ] && echo /dev/shm; rm -rf "$$d")
TESTED_IN = TMPDIR="$${TMPDIR:-$(IN_MEMORY)}"

test: $(VENV)/.installed-test  ## run every test; nothing else is needed
	@$(TESTED_IN) $(BIN)/python -m pytest $(SHARED) $(PYTEST_ARGS)

test-fast: $(VENV)/.installed-test  ## the tests that start no lab and no server, in a minute
	@$(TESTED_IN) $(BIN)/python -m pytest $(SHARED) --fast $(PYTEST_ARGS)

RELIABILITY_TESTS := tests/reliability tests/tools/test_bench.py \
	tests/e2e/test_resume.py::test_a_killed_run_is_resumed \
	tests/e2e/test_faults.py::test_a_lost_answer_or_session_changes_nothing_for_the_operator \
	$(foreach name,concurrent hosts_ssh large_vcenter locks maintenance_wait outage saved_plan signals tasks \
	fleet_stop two_boots vm_sets_adopted vm_sets_destroyed,tests/e2e/test_$(name).py) \
	tests/connect/test_vcenter_lock.py tests/language/test_fuzz.py tests/language/test_fuzz_cli.py \
	tests/planning/test_malformed.py tests/planning/test_move_search.py tests/tools/test_new_scaffolds.py tests/honesty/test_honesty.py

test-reliability: LEVEL := full
test-reliability:  ## kill it, cut it off, fill its disk, a thousand times

test-reliability-all: LEVEL := all
test-reliability-all:  ## the same with every case there is, and a million random files; an hour on two cores

test-reliability test-reliability-all: $(VENV)/.installed-test
	@seed="$${RELIABILITY_SEED:-$$(date +%s)}"; again="make $@ RELIABILITY_SEED=$$seed"; \
	echo "To repeat this: $$again"; \
	$(TESTED_IN) RELIABILITY=$(LEVEL) RELIABILITY_SEED="$$seed" \
		$(BIN)/python -m pytest $(SHARED) \
		$(RELIABILITY_TESTS) $(PYTEST_ARGS) || { echo "To repeat this: $$again" >&2; exit 1; }

# the oldest pyVmomi that setup.cfg allows, in a folder of its own before that of the newest one
PYVMOMI_8 := $(VENV)/pyvmomi-8
PYVMOMI_8_TESTS := tests/recorded tests/connect/test_plain.py tests/model/test_api_fields.py \
	tests/lab/test_soap_recorded.py tests/lab/test_soap_devices.py tests/lab/test_soap_vms.py tests/lab/test_soap_hosts.py \
	tests/thirdparty/test_faces.py tests/thirdparty/test_versions.py tests/thirdparty/test_pyvmomi.py \
	$(foreach name,all_kinds main_job vgpu_mode,tests/e2e/test_$(name).py)

$(PYVMOMI_8)/.installed: $(VENV)/.installed-test
	@echo "Installing pyVmomi 8.0.3 into $(PYVMOMI_8) ..."
	@$(BIN)/python -m pip $(QUIET) install --upgrade --target $(PYVMOMI_8) 'pyvmomi==8.0.3.*'
	@touch $@

test-oldest-pyvmomi: $(PYVMOMI_8)/.installed  ## a fast part of the tests on pyVmomi 8.0.3, the oldest that is supported
	@$(TESTED_IN) PYTHONPATH="$(abspath $(PYVMOMI_8))" $(BIN)/python -m pytest $(SHARED) $(PYVMOMI_8_TESTS) $(PYTEST_ARGS)
	@$(TESTED_IN) PYVMOMI_8="$(abspath $(PYVMOMI_8))" $(BIN)/python -m pytest $(SHARED) \
		tests/thirdparty/test_old_pyvmomi.py $(PYTEST_ARGS)

HONESTY_CASES ?= 520
HONESTY_ARGS ?= --cases $(HONESTY_CASES)

honesty: $(VENV)/.installed-test  ## random farms and playbooks: plan says yes exactly where apply then does it
	@seed="$${HONESTY_SEED:-$$(date +%s)}"; \
	echo "To repeat this: make honesty HONESTY_SEED=$$seed; one case of it: add HONESTY_ARGS='--case N'"; \
	$(TESTED_IN) $(BIN)/python tests/honesty/run.py --seed "$$seed" $(HONESTY_ARGS)

check: lint types coverage  ## what has to pass before a change goes in

lint: $(VENV)/.installed-dev  ## ruff: rules and formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev  ## mypy --strict
	@$(BIN)/mypy -p vsphere_ai -p tools

architecture: $(VENV)/.installed-dev  ## modules and dependencies, sizes, a test and a page for every kind, what the scaffolds write
	@$(BIN)/python -m pytest $(SHARED) tests/test_architecture.py tests/tools/test_new_scaffolds.py $(PYTEST_ARGS)

SINCE ?=

measures: $(VENV)/.installed  ## lines, modules and functions of each door, and their growth: SINCE=REVISION, the last tag without it
	@$(BIN)/python -m tools.measures $(SINCE)

# with what copies of the tool and labs have run; processes that were killed have saved nothing
coverage: $(VENV)/.installed-dev  ## every test; coverage of each room, and 90 % of the branches of the pure rooms
	@rm -f .coverage .coverage.*
	@$(TESTED_IN) $(BIN)/python -m pytest $(SHARED) --cov --cov-report= $(PYTEST_ARGS)
	@$(BIN)/coverage combine --quiet --append 2>/dev/null || true
	@$(BIN)/python -m tools.covered

changelog: $(BIN)/python  ## put the items of changes/*.md into the CHANGELOG
	@$(BIN)/python -m tools.changes

record: $(VENV)/.installed-test  ## record the API sessions of tests/recorded anew, from the lab
	@$(BIN)/python tests/recorded/record.py

SIZE ?= S
ONLY ?=

bench: $(VENV)/.installed  ## measure everything, beside other tools, and print ratios: SIZE=S|M|L ONLY=reading,writes
	@$(BIN)/python bench/run.py --size "$(SIZE)" --only "$(ONLY)"

lab: $(VENV)/.installed  ## start the simulated environment and leave it running
	@$(BIN)/vsphere-ai lab up

docs: $(VENV)/.installed  ## write the generated pages: fields of the kinds, compatibility rules, GPU boards, the role
	@$(BIN)/python -m tools.docgen.tables
	@$(BIN)/python -m tools.docgen.kinds docs/kinds docs/index.md
	@$(BIN)/python -m tools.docgen.compatibility > docs/compatibility.md.new && mv docs/compatibility.md.new docs/compatibility.md
	@$(BIN)/python -m tools.docgen.admission > docs/admission.md.new && mv docs/admission.md.new docs/admission.md
	@$(BIN)/python -m tools.docgen.catalogue > docs/catalogue.md.new && mv docs/catalogue.md.new docs/catalogue.md
	@$(BIN)/python -m tools.docgen.role docs/security.md
	@$(BIN)/python -m tools.docgen.assessment docs/assessment.md
	@$(BIN)/python -m tools.docgen.architecture docs/architecture.md docs/architecture.svg
	@$(BIN)/python -m tools.docgen.schemas docs/schemas
	@$(BIN)/python -m tools.docgen.performance bench/results/page.json docs/performance.md docs/pictures

site: $(VENV)/.installed-dev  ## build the documentation site: build/site/site/index.html
	@$(BIN)/python -m tools.docgen.site build/site
	@echo "Open build/site/site/index.html"

man: $(VENV)/.installed  ## write the manual pages into man
	@rm -rf man
	@$(BIN)/python -m tools.docgen.man man

$(VENV)/.installed-release: setup.cfg pyproject.toml $(VENV)/.installed-dev
	@echo "Installing what a release needs into $(VENV) ..."
	@$(BIN)/python -m pip $(QUIET) install --editable '.[release]'
	@touch $@

# the same commit gives the same wheel: no time but that of the commit goes in, and nothing that an older build left
wheel: man $(VENV)/.installed-release  ## build the wheel and the source archive into dist/
	@rm -rf build/lib build/bdist.* dist
	@SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}" $(BIN)/python -m build --no-isolation --outdir dist .

lock: $(VENV)/.installed-release  ## write requirements.lock and k8s/requirements.lock anew: versions and checksums of what the product needs
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --upgrade --python-version 3.11 --extra web \
		--custom-compile-command 'make lock' setup.cfg --output-file requirements.lock.new
	@mv requirements.lock.new requirements.lock
	@sed -n '/^fleet =/,/^[a-z]* =/s/^ *\(distributed .*\)/\1/p' setup.cfg | $(BIN)/uv pip compile --quiet --universal \
		--generate-hashes --upgrade --python-version 3.11 --constraint requirements.lock --no-annotate \
		--custom-compile-command 'make lock' - --output-file k8s/requirements.lock

sbom: wheel  ## write dist/sbom.cdx.json: what an environment with the wheel and requirements.lock has in it
	@rm -rf build/sbom && $(PYTHON) -m venv --without-pip build/sbom
	@$(BIN)/python -m pip --python build/sbom/bin/python $(QUIET) install --require-hashes -r requirements.lock
	@$(BIN)/python -m pip --python build/sbom/bin/python $(QUIET) install --no-deps --no-index --find-links dist vsphere-ai
	@$(BIN)/cyclonedx-py environment --output-reproducible --validate -o dist/sbom.cdx.json build/sbom

clean:  ## remove what was built here, .venv too
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage coverage.xml
