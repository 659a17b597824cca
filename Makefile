# The commands for developers. They are implemented in dev/, as shell scripts that can be linted.
.PHONY: help run check test dashboard screenshots plugins bench bench-scale fmt lint fuzz
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 16

run: ## install what is missing, build, and start the server on SQLite under data/
	@sh dev/run.sh

check: ## format, clippy and the unit tests of the crates that changed since the last commit (SINCE=REF: since that one)
	@sh dev/check.sh

test: ## everything that CI checks: format, clippy, unit and integration tests on both databases, the network tests
	@sh dev/test.sh

dashboard: ## build the dashboard into dashboard/dist
	@sh dev/dashboard.sh

screenshots: ## take the pictures of docs/screenshots again
	@sh dev/screenshots.sh

plugins: ## build the plugins of this repository into target/plugins
	@sh dev/plugins.sh

bench: ## run the load tests (tests/load) on both databases; prints a markdown table
	@sh dev/bench.sh

bench-scale: ## measure an index of ten million records on both databases; slow, and needs tens of gigabytes of disk
	@sh dev/bench.sh scale

fmt: ## format the code
	@cargo fmt --all
	@cd plugins && cargo fmt --all

lint: ## clippy and cargo-deny
	@sh dev/lint.sh

fuzz: ## run every fuzz target for FUZZ_SECONDS (default 30)
	@sh dev/fuzz.sh
