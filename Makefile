# SPDX-License-Identifier: Apache-2.0
# `make help` tells every target. Everything lives in the checkout: .venv and target.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BUILT := $(VENV)/.built
RUST_SOURCES := $(shell find rust -name '*.rs' -not -path '*/target/*' -not -path '*/fuzz/*') \
	Cargo.toml Cargo.lock $(wildcard rust/*/Cargo.toml)

.DEFAULT_GOAL := help
.PHONY: model help setup build demo test test-long check lint format types imports stubtest rust-check rust-test interop bench-signatures fuzz clean

help: ## Tell every target
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(BUILT) ## Build .venv with everything: the extension, a MongoDB server, the tools

# Installed anew when what is to be installed changes. That builds the extension too, so what it builds counts as built.
$(INSTALLED): pyproject.toml
	@command -v $(PYTHON) >/dev/null && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Ojak needs Python 3.11 or later; name one with: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@command -v cargo >/dev/null || \
		{ echo "Ojak needs a Rust toolchain (cargo) to build its extension; see https://rustup.rs" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV): a few minutes the first time"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(INSTALLED) $(BUILT)

# Built anew when Rust sources change, and then without asking a package index for anything.
$(BUILT): $(RUST_SOURCES) $(INSTALLED)
	@if [ ! -e $@ ] || [ -n "$$(find $(RUST_SOURCES) -newer $@)" ]; then $(MAKE) --no-print-directory build; fi
	@touch $@

build: $(INSTALLED) ## Build the Rust extension in place
	@$(BIN)/maturin develop --release --quiet --skip-install

demo: setup ## Watch real activities go to 200 hosts, every signature checked
	@$(BIN)/ojak demo

test: setup ## Run the whole test suite
	$(BIN)/pytest

test-long: setup ## Run what takes minutes, at full length (but the models: make model)
	$(BIN)/pytest -m long --ignore=tests/model --durations=20

interop: setup ## Sign and verify against independent implementations (installs them)
	$(BIN)/python tests/interop/interop.py

bench-signatures: setup ## Measure what signatures cost
	$(BIN)/python bench/signatures/run.py

fuzz: setup ## Fuzz every parser for five minutes each (needs nightly and cargo-fuzz)
	$(BIN)/python rust/httpsig/fuzz/seed.py
	cd rust/httpsig && for target in $$(cargo +nightly fuzz list); do \
		cargo +nightly fuzz run $$target -- -max_total_time=300 -max_len=8192 -timeout=20 || exit 1; done

check: lint types imports stubtest rust-check ## Run every static check

lint: setup ## Check Python's style and form
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup ## Format Python and Rust
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .
	cargo fmt --all

types: setup ## Check types
	$(BIN)/mypy

imports: setup ## Check that imports go downwards only
	$(BIN)/lint-imports

stubtest: setup ## Check the extension's stub against the extension
	$(BIN)/python -m mypy.stubtest ojak._ojak

rust-check: ## Check Rust's form, and run clippy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

rust-test: ## Run the Rust crates' own tests
	cargo test --workspace --locked --quiet

model: setup ## Explore the models of the queue's protocol with larger bounds and every omission (long)
	$(BIN)/pytest -m long -s tests/model

clean: ## Remove what was built
	rm -rf $(VENV) target python/ojak/_ojak*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis
