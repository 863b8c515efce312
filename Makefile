# `make run` and `make test` are all that a newcomer needs.

SHELL := /bin/bash
STATE ?= $(CURDIR)/.state
export SANDBOX_STATE_DIR ?= $(shell if [ "$$(id -u)" = 0 ]; then echo /var/lib/sandboxd; else echo $(STATE); fi)

.PHONY: help run test demo bench lint fmt build deps test-deps openapi clean test-deploy images

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

deps: ## install what the service needs: bubblewrap, python3
	@deploy/install-deps.sh run

test-deps: ## install what the tests need
	@deploy/install-deps.sh test

build: ## build the service, the guest inside it
	cargo build --release --locked -p sandboxd

run: deps build ## build and start the service on 127.0.0.1:8080
	@target/release/sandboxd serve

demo: deps build ## start the service, take a tour by curl, stop it
	@deploy/demo.sh target/release/sandboxd

test: test-deps ## install what the tests need and run all of them
	cargo test --locked --workspace --no-fail-fast
	@tests/deploy/run.sh || { [ $$? = 3 ] && [ -z "$$CI" ] && echo "SKIPPED: the test of the deployment"; }

bench: build ## time the service beside what it is built on; QUICK=1, ONLY="calls search"
	@deploy/install-deps.sh bench || echo "some yardsticks will not be available"
	cargo run --release --locked -q -p sandbox-bench -- $(if $(QUICK),--quick) $(ONLY)

images: ## build the images of the service and of its sandboxes
	DOCKER_BUILDKIT=1 docker build -t sandboxd:latest -f docker/service.Dockerfile .
	DOCKER_BUILDKIT=1 docker build -t sandboxd-worker:latest -f docker/worker.Dockerfile .

test-deploy: ## start deploy/docker-compose.yml whole and use it
	@tests/deploy/run.sh

lint: ## formatting, clippy, shell scripts
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings

fmt: ## format the code
	cargo fmt --all

openapi: ## write openapi.yaml anew from the code
	UPDATE_OPENAPI=1 cargo test --locked -p sandbox-http openapi

clean: ## remove what was built
	cargo clean
