#!/usr/bin/env bash
# Installs what is missing on Debian or Ubuntu: for `run` what the service
# needs, for `test` what its tests need too, for `bench` what it is measured against.
set -euo pipefail

missing=()
need() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/bin/$1" ] || missing+=("$2"); }

need bwrap bubblewrap
# Sandboxes see /usr, so the interpreter must be there.
[ -x /usr/bin/python3 ] || missing+=(python3)
need cc gcc
need curl curl
if [ "${1:-run}" = test ]; then
	need openssl openssl
	need perl perl
	need pgrep procps
	need setsid util-linux
	# Of tools from PyPI.
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
	done
	# Of the languages; a program outside /usr is of no use to a sandbox.
	usr() { [ -x "/usr/bin/$1" ] || missing+=("$2"); }
	usr node nodejs
	# SDKs from its registry.
	need npm npm
	usr esbuild esbuild
	usr ruby ruby
	usr php php-cli
	usr gcc gcc
	usr g++ g++
	usr go golang-go
	usr rustc rustc
	usr javac default-jdk-headless
	usr Rscript r-base-core
	need openssl openssl
	# The tests start a server of their own; its programs are often not on PATH.
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need initdb postgresql
	# Figures and tables of the interpreter that sandboxes see.
	for name in matplotlib pandas; do
		[ -d "/usr/lib/python3/dist-packages/$name" ] || missing+=("python3-$name")
	done
fi

if [ "${1:-run}" = bench ]; then
	need rg ripgrep
	/usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
	for name in matplotlib pandas; do
		[ -d "/usr/lib/python3/dist-packages/$name" ] || missing+=("python3-$name")
	done
fi

if [ ${#missing[@]} -gt 0 ]; then
	if ! command -v apt-get >/dev/null; then
		echo "please install: ${missing[*]}" >&2
		exit 1
	fi
	sudo=()
	[ "$(id -u)" = 0 ] || sudo=(sudo)
	echo "installing: ${missing[*]}"
	"${sudo[@]}" apt-get update -qq
	DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

if ! command -v cargo >/dev/null; then
	echo "Rust is missing: see https://rustup.rs" >&2
	exit 1
fi
