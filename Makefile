# SPDX-License-Identifier: Apache-2.0
# `make help` tells every target. Everything lives in the checkout: .venv and target.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUST_SOURCES := $(shell find rust -name '*.rs' -not -path '*/target/*' 2>/dev/null) $(wildcard Cargo.toml Cargo.lock rust/*/Cargo.toml)

.DEFAULT_GOAL := help
.PHONY: help setup build demo test check lint format types imports stubtest rust-check rust-test clean

help: ## Tell every target
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Build .venv with everything: the extension, mongod, tools

$(STAMP): pyproject.toml $(RUST_SOURCES)
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Ojak needs Python 3.11 or later; name one with: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@command -v cargo >/dev/null || { echo "Ojak needs a Rust toolchain (cargo) to build its extension; see https://rustup.rs" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=24'
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(STAMP)

build: setup ## Rebuild the Rust extension in place
	$(BIN)/maturin develop --release --quiet

demo: setup ## Watch real activities go to 200 hosts, every signature checked
	$(BIN)/ojak demo

test: setup ## The whole test suite
	$(BIN)/pytest

check: lint types imports stubtest rust-check ## Every static check

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup ## Format Python and Rust
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .
	cargo fmt --all

types: setup
	$(BIN)/mypy

imports: setup
	$(BIN)/lint-imports

stubtest: setup
	$(BIN)/python -m mypy.stubtest ojak._ojak

rust-check: ## rustfmt and clippy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

rust-test: ## The Rust crates' own tests
	cargo test --workspace --locked --quiet

clean: ## Remove what was built
	rm -rf $(VENV) target .mypy_cache .ruff_cache .pytest_cache .hypothesis
