# Everything a contributor or a newcomer runs. Each target does its own set-up.
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
.DEFAULT_GOAL := help

.PHONY: help demo test install dev check fmt golden docs e2e bench dashboards pictures bench-dashboards manifests lock clean dist vm-test image image-test

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: install ## a minute of a simulated fleet with three faults, found and shown
	$(BIN)/eastwest demo --seconds 60

test: dev ## the test suite
	$(BIN)/pytest -q

install: .venv/.installed ## make .venv with .venv/bin/eastwest

dev: .venv/.dev ## install, and what the checks need

# The stamp is written last and names this folder: a set-up that was interrupted, that lies elsewhere now (scripts and the
# editable install name their folder) or whose Python is gone is none, and is made anew.
WHOLE = $(BIN)/python -c "import pip" 2>/dev/null && [ "$$(cat .venv/.installed 2>/dev/null)" = "$$(pwd -P)" ]
ifneq ($(shell $(WHOLE) && echo whole),whole)
.PHONY: .venv/.installed
endif

.venv/.installed: pyproject.toml requirements.lock
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or later is needed, with its venv module" >&2; exit 1; }
	@$(PYTHON) -c "import ensurepip, venv" 2>/dev/null || { \
		echo "make: $(PYTHON) has no venv module: apt install python3-venv (so on Debian and Ubuntu)" >&2; exit 1; }
	@$(WHOLE) || { echo "making .venv with $(PYTHON)"; \
		python=$$($(PYTHON) -c "import sys; print(sys._base_executable)"); \
		rm -rf .venv; "$$python" -m venv .venv || { rm -rf .venv; exit 1; }; }
	@rm -f $@ .venv/.dev
	@echo "installing what requirements.lock names (about half a minute, once)"
	@$(BIN)/python -m pip --quiet --disable-pip-version-check install --require-hashes -r requirements.lock
	@$(BIN)/python -m pip --quiet --disable-pip-version-check install --no-deps --no-build-isolation --editable .
	@pwd -P > $@

.venv/.dev: .venv/.installed requirements-dev.lock
	@echo "installing what the tests need (requirements-dev.lock, once)"
	@$(BIN)/python -m pip --quiet --disable-pip-version-check install --require-hashes -r requirements-dev.lock
	@touch $@

check: dev ## format, lint, types, import contracts, tests: what must be green
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q

fmt: dev ## let ruff format and fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

golden: dev ## rewrite the golden files and generated docs; then read the diff
	$(BIN)/eastwest catalogue metrics > docs/metrics.md
	$(BIN)/eastwest catalogue findings > docs/findings.md
	$(BIN)/eastwest config reference > docs/configuration.md
	UPDATE_GOLDEN=1 $(BIN)/pytest -q tests/test_golden.py
	$(BIN)/python -m deploy.helm.manifests

dashboards: dev ## write grafana/dashboards/*.json from their builder
	$(BIN)/python -m grafana.build

pictures: dev ## draw the dashboards for the README (needs node, npm, chromium, prometheus)
	cd grafana/render && npm install --no-audit --no-fund --no-package-lock && npm run build
	$(BIN)/python -m tests.dashboards.pictures docs/pictures

bench-dashboards: dev ## the dashboards' queries on 512 synthetic nodes (minutes, 2 GB of disk)
	$(BIN)/python -m bench.dashboards

e2e: dev ## the real process beside a real Prometheus, promtool, node_exporter
	$(BIN)/pytest -q -m e2e

vm-test: dev dist ## on real RDMA devices and under a real systemd, in a virtual machine (minutes)
	tests/vm/build.sh
	$(BIN)/pytest -q -m vm tests/vm

image: ## the container image, by docker, buildah or podman (BASE=mmdebstrap: without a registry)
	deploy/container/build.sh localhost/eastwest:latest

image-test: dev ## build the image and run it confined, by podman
	deploy/container/build.sh localhost/eastwest:test
	$(BIN)/pytest -q -m image tests/image

bench: dev ## poll and render beside node_exporter, on the same tree
	$(BIN)/python -m bench.poll_render
	$(BIN)/python -m bench.gpus

manifests: dev ## the chart's copies, its schema, and deploy/kubernetes (needs helm); then read the diff
	$(BIN)/python -m deploy.helm.manifests

dist: install ## dist/*.tar.gz: one archive that installs on a node without a network
	deploy/systemd/dist.sh $(BIN)/python

lock: ## renew the lock files (needs uv)
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
		pyproject.toml --group build -o requirements.lock
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
		pyproject.toml --group dev -c requirements.lock -o requirements-dev.lock
	uv pip compile --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 \
		pyproject.toml -c requirements.lock -o requirements-run.lock

clean: ## remove what make made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
