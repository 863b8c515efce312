#!/usr/bin/env bash
# Pins what docker/worker-requirements.in names, all that it needs, and their
# hashes, for every Python from 3.11 (Debian's) on. With --upgrade: to the newest.
set -euo pipefail
cd "$(dirname "$0")"

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet uv
out=worker-requirements.txt
sed -i '/^# Made of/d' "$out"
"$tools/bin/uv" --native-tls pip compile --quiet --no-header --universal --python-version 3.11 \
	--generate-hashes --output-file "$out" "$@" worker-requirements.in
sed -i '1i # Made of worker-requirements.in by docker/lock-requirements.sh; do not edit.' "$out"
