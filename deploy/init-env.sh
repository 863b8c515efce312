#!/usr/bin/env bash
# Makes deploy/.env: the example with secrets of its own and the group of the Docker
# socket. One that is there already stays.
set -euo pipefail
cd "$(dirname "$0")"

if [ -e .env ]; then
	echo "deploy/.env is there already; it stays as it is" >&2
	exit 0
fi
umask 077
secret() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
socket=${DOCKER_SOCKET:-/var/run/docker.sock}
if [ -S "$socket" ]; then
	gid=$(stat -L -c %g "$socket")
else
	echo "no Docker socket at $socket: set DOCKER_SOCKET and DOCKER_GID in deploy/.env" >&2
	gid=
fi
sed -e "s|^POSTGRES_PASSWORD=$|&$(secret)|" \
	-e "s|^GRAFANA_PASSWORD=$|&$(secret)|" \
	-e "s|^SANDBOX_JWT_SECRET=$|&$(secret)|" \
	-e "s|^DOCKER_GID=$|&$gid|" \
	-e "s|^#DOCKER_SOCKET=.*|DOCKER_SOCKET=$socket|" .env.example >.env.new
# Whole or not at all.
mv .env.new .env
echo "made deploy/.env"
