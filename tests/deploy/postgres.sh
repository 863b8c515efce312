#!/usr/bin/env bash
# What the official image does at its first start: a cluster, a user, a database.
set -euo pipefail

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	# Several words, as in the official image.
	# shellcheck disable=SC2086
	initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "${POSTGRES_PASSWORD:?}") \
		--encoding=UTF8 --locale=C.UTF-8 ${POSTGRES_INITDB_ARGS:-}
	echo "CREATE DATABASE \"$POSTGRES_DB\";" | postgres --single -j postgres >/dev/null
	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql
