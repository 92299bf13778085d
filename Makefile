# The commands of this repository. `make demo` and `make test` do everything a fresh Debian 12
# machine with Rust, Node and Python needs, packages included.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Everything fetched or built for the machine rather than for one clone: guest kernels,
# initramfs images, the Python environment, and in CI the build itself.
export TRANSECT_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/transect
ifneq ($(CI),)
export CARGO_TARGET_DIR ?= $(TRANSECT_CACHE)/target
endif
TARGET := $(or $(CARGO_TARGET_DIR),target)
PYTHON := $(TRANSECT_CACHE)/venv/bin/python
FUZZ_SECONDS ?= 60
# Built together always: a build of other packages could want other features of dependencies (tests/house/once.py).
SHIPPED := -p transect-cli -p transect-testbed -p transect-query
# The programs that the demo needs: all but the SQL engine.
FIRST := --bin transect --bin testbed --bin testbed-demo

.PHONY: help setup tools build web agent demo check test test-guests chaos bench lint fuzz study study-xenmon study-paths

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: ## Install missing Debian packages, the Python environment and guest images
	@bash tests/house/setup.sh

tools: ## The Python environment alone, with the test runner: no root
	@bash tests/house/setup.sh tools

build: web ## Build the binaries (release) and the static guest agent
	@cargo build --release --locked $(SHIPPED)
	@$(MAKE) --no-print-directory agent

web: ## Build the page of `transect view` into web/dist
	@cd web && if ! cmp -s package-lock.json node_modules/.installed-lock; then \
	    npm ci --prefer-offline --fetch-retries=5 --no-audit --no-fund --loglevel=error && cp package-lock.json node_modules/.installed-lock; fi
	@cd web && npm run --silent build

agent: ## Build the static guest agent
	@RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --profile agent \
	    --target $$(rustc -vV | sed -n 's/^host: //p') -p transect-agent

demo: setup web ## Record a starved guest and its antagonist on real KVM, and print the report
	@cargo build --release --locked $(SHIPPED) $(FIRST)
	@$(MAKE) --no-print-directory agent
	@bash tests/house/demo.sh
	@echo && echo "Building the SQL engine, for transect sql, serve and view ..."
	@cargo build --release --locked $(SHIPPED)

lint: ## Formatting, clippy, layers, circles, links of the documentation, terminals, prose
	@cargo fmt --check
	@bash tests/house/nextest.sh cargo clippy --workspace --all-targets --locked -- -D warnings
	@python3 tests/house/layers.py
	@python3 tests/house/test_circles.py --quiet
	@python3 tests/house/circles.py
	@python3 tests/house/once.py $(SHIPPED)
	@python3 tests/house/test_summary.py --quiet
	@python3 tests/house/test_copy_tree.py --quiet
	@python3 tests/house/test_prose.py --quiet
	@python3 tests/house/test_terminals.py --quiet
	@python3 tests/house/docs.py
	@python3 tests/house/terminals.py
	@python3 tests/house/prose.py

check: tools web ## Formatting, lints, types, unit, property and golden tests: no root, no guests, no browser (two minutes)
	@bash tests/house/test.sh check

test: setup build ## All of check, peers, this host's own kernel, one browser, fuzzing, and one KVM host with two guests
	@bash tests/house/test.sh test

test-guests: setup build ## Every other test that boots a machine, and the slow ones; ONLY=xen for one kind (CONTRIBUTING.md)
	@bash tests/house/test.sh guests $(ONLY)

chaos: setup build ## A thousand damaged files, 200 kills, full disks and stopped processes; prints the tables of outcomes (half an hour)
	@bash tests/house/chaos.sh

fuzz: ## Fuzz every codec for FUZZ_SECONDS in all
	@bash fuzz/run.sh $(FUZZ_SECONDS)

bench: setup build ## Speed against peers, as ratios measured in the same run
	@bash tests/house/bench.sh

study: setup build ## One of the benchmark's studies, NAME=tracers, and its page (a quarter of an hour to an hour and a half)
	@bash tests/house/study.sh "$(NAME)"

study-xenmon: setup build ## The XenMon study on Xen hosts of the testbed (half an hour to an hour), and its page
	@cargo build --release --locked $(SHIPPED) -p transect-studies
	@"$(TARGET)/release/study-xenmon" --transect "$(TARGET)/release/transect" --out docs/reference/studies

study-paths: setup build ## How a packet leaves a host, a container, KVM guests and a Xen domain: records all, and makes the page (ten minutes)
	@cargo build --release --locked $(SHIPPED) -p transect-studies
	@"$(TARGET)/release/study-paths" --bin-dir "$(TARGET)" --out docs/reference/studies
