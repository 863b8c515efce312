#!/usr/bin/env bash
# Makes the Python environment of these tests in the directory $1, once: it is
# made anew when requirements.txt changes.
set -euo pipefail

venv=$1
wanted=$(dirname "$0")/requirements.txt
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
cmp -s "$wanted" "$venv/made-from" && exit
rm -rf "$venv"
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
cp "$wanted" "$venv/made-from"
