#!/usr/bin/env bash
# A Docker daemon of its own for the tests, with an image that needs no registry.
#
#   docker/test-daemon.sh        start it where it does not run; the last line says
#                                DOCKER_HOST=...
#   docker/test-daemon.sh stop   end it
#
# Where no daemon can be had it says why and exits with 3.
set -euo pipefail
cd "$(dirname "$0")/.."

data=${SANDBOX_TEST_DOCKER_DIR:-$PWD/target/docker}
# Short, for the path of a socket has an end; apart for each checkout.
run=/run/sandboxd-test-$(printf %s "$data" | sha256sum | cut -c1-12)
export DOCKER_HOST=unix://$run/docker.sock
BASE=sandboxd-test-base:latest

cannot() {
	echo "no Docker daemon for the tests: $*" >&2
	exit 3
}

answers() { docker version >/dev/null 2>&1; }

stop() {
	if [ -s "$run/pid" ]; then
		kill "$(cat "$run/pid")" 2>/dev/null || true
		for _ in $(seq 300); do
			[ -e "$run/pid" ] || return 0
			sleep 0.1
		done
		echo "the Docker daemon of the tests does not end" >&2
		exit 1
	fi
}

if [ "${1:-}" = stop ]; then
	stop
	exit 0
fi

[ "$(id -u)" = 0 ] || cannot "it takes root to start one"
missing=()
command -v dockerd >/dev/null || missing+=(docker.io)
command -v docker >/dev/null || missing+=(docker.io)
command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
if [ ${#missing[@]} -gt 0 ]; then
	command -v apt-get >/dev/null || cannot "${missing[*]} are not installed"
	{
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
	} >&2 || cannot "${missing[*]} could not be installed"
fi

if ! answers; then
	mkdir -p "$data" "$run"
	# Without the default bridge, so that it can run beside another daemon.
	setsid dockerd --data-root "$data" --exec-root "$run/exec" --pidfile "$run/pid" \
		--bridge=none -H "$DOCKER_HOST" >"$data/log" 2>&1 </dev/null &
	for _ in $(seq 150); do
		answers && break
		sleep 0.2
	done
	answers || {
		tail -n 5 "$data/log" >&2
		cannot "it does not start here"
	}
fi

if ! docker image inspect "$BASE" >/dev/null 2>&1 && [ -n "${SANDBOX_TEST_BASE_FROM:-}" ]; then
	# Of a daemon that has it already.
	docker -H "$SANDBOX_TEST_BASE_FROM" save "$BASE" | docker load >/dev/null
fi
if ! docker image inspect "$BASE" >/dev/null 2>&1; then
	mmdebstrap --quiet --variant=minbase --include=python3,bash,procps,ca-certificates \
		bookworm - | docker import - "$BASE" >/dev/null || cannot "the base image could not be made"
fi
echo "DOCKER_HOST=$DOCKER_HOST"
