#!/usr/bin/env bash
# Makes a Python environment for tests in the directory $1, once: it is made
# anew when the requirements change. They are those of $2, by default of the
# tests of the OpenAPI document. $PYTHON is its interpreter.
set -euo pipefail

venv=$1
wanted=${2:-$(dirname "$0")/requirements.txt}
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
cmp -s "$wanted" "$venv/made-from" && exit
rm -rf "$venv"
"${PYTHON:-python3}" -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$venv/made-from"
