#!/usr/bin/env bash
# A Docker daemon of the tests' own, and the image they start from.
#
#   docker/test-daemon.sh         start it or find it running; the last line is DOCKER_HOST=...
#   docker/test-daemon.sh stop    end it and its containers; images stay for the next start
#   docker/test-daemon.sh purge   the same, and remove all that it kept
#
# $DOCKER_TEST_DIR (default: target/docker) has its data and its log.
# $DOCKER_TEST_BASE_FROM: the image is taken from this daemon, where it is missing.
# Exit status 3: there can be no daemon here; standard error says why.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${DOCKER_TEST_DIR:-$here/../target/docker}
image=sandboxd-test-base:latest
suite=bookworm
packages=python3,bash,procps,ca-certificates

say() { echo "test-daemon: $*" >&2; }

unavailable() {
	say "no Docker daemon for the tests: $*"
	exit 3
}

sudo=()
if [ "$(id -u)" != 0 ]; then
	sudo -n true 2>/dev/null || unavailable "dockerd needs root, and sudo wants a password"
	sudo=(sudo -n)
fi

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
# A socket's path has at most 107 bytes, and a bridge's name 15: both are made of
# the folder's hash, so that every checkout has a daemon and a network of its own.
id=$(printf %s "$dir" | sha256sum | cut -c 1-8)
run=/run/sandboxd-test-$id
bridge=sbxt-$id
socket=$run/docker.sock
log=$dir/dockerd.log
export DOCKER_HOST=unix://$socket
unset DOCKER_CONTEXT DOCKER_TLS_VERIFY DOCKER_CERT_PATH

answers() { timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# The process that the pid file names, if that is our dockerd and not a later
# process with its number.
daemon_pid() {
	local pid
	pid=$("${sudo[@]}" cat "$run/pid" 2>/dev/null) || return 1
	"${sudo[@]}" cat "/proc/$pid/cmdline" 2>/dev/null | tr '\0' ' ' | grep -qF -- "--data-root $dir/data" || return 1
	echo "$pid"
}

install_missing() {
	local missing=()
	# Those of a system's administrator are not on every user's PATH.
	PATH=$PATH:/usr/sbin:/sbin
	command -v dockerd >/dev/null && command -v docker >/dev/null || missing+=(docker.io)
	command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
	command -v iptables >/dev/null || missing+=(iptables)
	command -v ip >/dev/null || missing+=(iproute2)
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null || unavailable "please install: ${missing[*]}"
	say "installing: ${missing[*]}"
	{
		# The package would start a daemon of the system's own, which nobody asked for.
		if [ ! -e /usr/sbin/policy-rc.d ]; then
			printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee /usr/sbin/policy-rc.d >/dev/null
			"${sudo[@]}" chmod 755 /usr/sbin/policy-rc.d
			trap '"${sudo[@]}" rm -f /usr/sbin/policy-rc.d' EXIT
		fi
		"${sudo[@]}" timeout 300 apt-get update -qq &&
			"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive timeout 900 apt-get install -y -qq --no-install-recommends "${missing[@]}"
	} >&2 || unavailable "apt-get could not install ${missing[*]}"
}

make_bridge() {
	[ -e "/sys/class/net/$bridge" ] && return
	"${sudo[@]}" ip link add "$bridge" type bridge 2>"$dir/ip.err" ||
		unavailable "no bridge network can be made: $(cat "$dir/ip.err")"
}

# A bridge whose packets are larger than what the way out takes loses the large ones.
mtu() {
	local device
	device=$(ip -o route show default 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
	awk '{ print ($1 < 1500) ? $1 : 1500 }' "/sys/class/net/${device:-lo}/mtu"
}

start() {
	"${sudo[@]}" mkdir -p "$run" "$dir/data"
	make_bridge
	# Not the settings of the system's daemon.
	echo '{}' >"$dir/daemon.json"
	say "starting dockerd, log in $log"
	# In a session of its own, so that it outlives who started it; with no descriptor
	# of theirs, for a test that reads our output would wait for its end, and without
	# the lock. containerd's socket is under exec-root: its path must be short too.
	"${sudo[@]}" setsid dockerd --data-root "$dir/data" --exec-root "$run/exec" \
		--pidfile "$run/pid" --host "$DOCKER_HOST" --group "$(id -g)" \
		--bridge "$bridge" --mtu "$(mtu)" --config-file "$dir/daemon.json" \
		--log-level warn </dev/null >"$log" 2>&1 9>&- &
	for _ in $(seq 300); do
		answers && return
		kill -0 $! 2>/dev/null || break
		sleep 0.1
	done
	unavailable "dockerd did not start: $(tail -n 5 "$log")"
}

# Nothing in it but Debian, for no registry need be in reach.
make_image() {
	docker image inspect "$image" >/dev/null 2>&1 && return
	if [ -n "${DOCKER_TEST_BASE_FROM:-}" ] &&
		docker --host "$DOCKER_TEST_BASE_FROM" save "$image" 2>"$dir/image.err" | docker load >/dev/null 2>&1; then
		return
	fi
	say "making $image of Debian packages"
	# Its temporary files would not fit where /tmp is in memory.
	if ! "${sudo[@]}" env TMPDIR="$dir" timeout 900 mmdebstrap --quiet --variant=minbase \
		--include="$packages" --aptopt='Acquire::Retries "3"' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
		"$suite" - ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} 2>"$dir/image.err" |
		docker import --change 'CMD ["bash"]' - "$image" >/dev/null; then
		# What there is of an image whose making failed is none.
		docker image rm "$image" >/dev/null 2>&1 || true
		unavailable "$image could not be made: $(tail -n 5 "$dir/image.err")"
	fi
}

# A daemon that answers need not be able to start anything, for example in a container.
check() {
	timeout 60 docker run --rm "$image" grep -qE '^eth0\s+00000000' /proc/net/route 2>"$dir/run.err" >&2 ||
		unavailable "a container with a network does not start: $(tail -n 5 "$dir/run.err")"
}

stop() {
	local pid
	if pid=$(daemon_pid); then
		docker ps -q 2>/dev/null | xargs -r docker kill >/dev/null 2>&1 || true
		"${sudo[@]}" kill "$pid"
		for _ in $(seq 300); do
			"${sudo[@]}" kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		if "${sudo[@]}" kill -0 "$pid" 2>/dev/null; then
			say "dockerd ($pid) does not end"
			exit 1
		fi
		say "stopped"
	fi
	[ -e "/sys/class/net/$bridge" ] && "${sudo[@]}" ip link delete "$bridge"
	"${sudo[@]}" rm -rf "$run"
}

exec 9>"$dir/lock"
flock -w 1200 9 || unavailable "another start of it takes too long"

case ${1:-start} in
start)
	install_missing
	if ! answers; then
		! pid=$(daemon_pid) || unavailable "dockerd ($pid) runs and does not answer on $socket"
		start
		make_image
		check
	fi
	make_image
	echo "DOCKER_HOST=$DOCKER_HOST"
	;;
stop) stop ;;
purge)
	stop
	"${sudo[@]}" rm -rf "$dir/data"
	;;
*)
	echo "usage: $0 [start|stop|purge]" >&2
	exit 2
	;;
esac
