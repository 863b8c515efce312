#!/usr/bin/env bash
# Starts deploy/docker-compose.yml whole, on the tests' own Docker daemon, and uses it
# through its gateway. No registry need be in reach: images are made of Debian packages.
#
#   tests/deploy/run.sh [static binary of sandboxd]
#
# Exit status 3: there can be no Docker daemon here.
#
# `pass` does not fail, so what follows it is an else.
# shellcheck disable=SC2015
set -euo pipefail
cd "$(dirname "$0")/../.."

BASE=sandboxd-test-base:latest
binary=${1-}
docker_host=$(docker/test-daemon.sh)
export DOCKER_HOST=${docker_host##*DOCKER_HOST=}
socket=${DOCKER_HOST#unix://}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
pass() { echo "  ok: $*"; }
fail() {
	echo "  FAILED: $*" >&2
	exit 1
}
# is WHAT GOT WANTED
is() { [ "$2" = "$3" ] && pass "$1" || fail "$1: $2 instead of $3"; }
# has WHAT TEXT PART
has() { [[ "$2" == *"$3"* ]] && pass "$1" || fail "$1: no \`$3\` in: $2"; }

sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo -n)
if docker compose version >/dev/null 2>&1; then
	compose=(docker compose)
else
	command -v docker-compose >/dev/null ||
		"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-compose
	compose=(docker-compose)
fi

# One that has BuildKit: the daemon's own, or the plugin of a newer client.
builder=docker
if ! docker buildx version >/dev/null 2>&1 && [ -x /usr/bin/docker ]; then
	builder=/usr/bin/docker
fi
build() {
	local secrets=()
	# Of a proxy between here and PyPI, where the machine trusts one.
	[ ! -s /etc/ssl/certs/ca-certificates.crt ] || secrets=(--secret "id=ca,src=/etc/ssl/certs/ca-certificates.crt")
	DOCKER_BUILDKIT=1 timeout 1800 "$builder" build -q "${secrets[@]}" "$@" >/dev/null
}

# ---------------------------------------------------------------------------------
step 'Images'
if [ -z "$binary" ]; then
	target=$(uname -m)-unknown-linux-gnu
	RUSTFLAGS='-C target-feature=+crt-static' \
		cargo build --release --locked --target "$target" -p sandboxd
	binary=${CARGO_TARGET_DIR:-target}/$target/release/sandboxd
fi
mkdir "$work/binary"
cp "$binary" "$work/binary/sandboxd"
printf 'FROM scratch\nCOPY sandboxd /sandboxd\n' >"$work/binary/Dockerfile"
build -t sandboxd-test-binary "$work/binary"
build -t sandboxd-test-service --build-arg BINARY=sandboxd-test-binary --build-arg TOOLS=$BASE \
	-f docker/service.Dockerfile .
build -t sandboxd-test-worker --build-arg BASE=$BASE -f docker/worker.Dockerfile .
build -t sandboxd-test-gateway --build-arg BASE=$BASE -f tests/deploy/gateway.Dockerfile .
build -t sandboxd-test-postgres --build-arg BASE=$BASE -f tests/deploy/postgres.Dockerfile .
docker images --format '  {{.Repository}} {{.Size}}' 'sandboxd-test-*'

# ---------------------------------------------------------------------------------
step 'Files of Compose'
# A folder of the compose files alone: an .env of the checkout is not the test's.
cp -r deploy "$work/deploy"
rm -f "$work/deploy/.env"
(cd "$work/deploy" && DOCKER_SOCKET=$socket ./init-env.sh)
env_file=$work/deploy/.env
is 'only its owner may read the secrets' "$(stat -c %a "$env_file")" 600
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
tls_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sed -i -e "s/^COMPOSE_PROJECT_NAME=.*/COMPOSE_PROJECT_NAME=sandboxd-test-$$/" \
	-e "s/^SANDBOX_HTTP=.*/SANDBOX_HTTP=127.0.0.1:$port/" \
	-e "s/^SANDBOX_HTTPS=.*/SANDBOX_HTTPS=127.0.0.1:$tls_port/" "$env_file"
cat >>"$env_file" <<-END
	SANDBOXD_IMAGE=sandboxd-test-service
	SANDBOX_WORKER_IMAGE=sandboxd-test-worker:latest
	GATEWAY_IMAGE=sandboxd-test-gateway
	POSTGRES_IMAGE=sandboxd-test-postgres
END
# run_compose FILES... -- ARGUMENTS...
run_compose() {
	local files=()
	while [ "$1" != -- ]; do
		files+=(-f "$work/deploy/$1")
		shift
	done
	shift
	"${compose[@]}" --env-file "$env_file" "${files[@]}" "$@"
}
up_and_down() { run_compose docker-compose.yml -- "$@"; }

up_and_down config >"$work/config" || fail 'docker-compose.yml is not valid'
pass 'docker-compose.yml is valid'
E2B_API_KEY=k run_compose docker-compose.yml docker-compose.e2b.yml -- config >"$work/e2b" ||
	fail 'docker-compose.e2b.yml is not valid'
has 'with E2B the service is told so' "$(cat "$work/e2b")" 'SANDBOX_BACKEND: e2b'
gate=$(sed -n '/^  docker-gate:/,/^  [a-z]*:$/p' "$work/e2b" | tr -d ' \n')
has 'and the gate has no socket' "$gate" 'target:/var/run/docker.sock'
[[ $gate == *tmpfs* && $gate != *"source:$socket"* ]] && pass 'of the machine' || fail "the gate has the socket: $gate"
up_and_down --profile observability config >/dev/null || fail 'the profile observability is not valid'
pass 'the profile observability is valid'
for name in POSTGRES_PASSWORD DOCKER_GID GRAFANA_PASSWORD; do
	sed "s/^$name=.*/$name=/" "$env_file" >"$work/without"
	said=$("${compose[@]}" --env-file "$work/without" -f "$work/deploy/docker-compose.yml" config 2>&1) &&
		fail "it is valid without $name"
	has "nothing starts without $name" "$said" 'is not set; deploy/init-env.sh'
done

# ---------------------------------------------------------------------------------
url=http://127.0.0.1:$port
secret=$(sed -n 's/^SANDBOX_JWT_SECRET=//p' "$env_file")
# Containers and volumes of one service, by the label that they all have.
label=dev.sandboxd.owner
ours() {
	docker ps -aq --filter label="$label" "$@"
	docker volume ls -q --filter label="$label" "$@"
}
clean_up() {
	local status=$?
	if [ "$status" != 0 ] && [ "$status" != 3 ]; then
		up_and_down ps || true
		up_and_down logs --no-color --tail 15 2>&1 | sed "s/$secret/********/g" || true
	fi
	up_and_down down -v --timeout 20 >/dev/null 2>&1 || true
	# Of this run alone: until the owner is known, there are none.
	if [[ $label == *=* ]]; then
		docker ps -aq --filter label="$label" | xargs -r docker rm -f >/dev/null || true
		docker volume ls -q --filter label="$label" | xargs -r docker volume rm >/dev/null || true
	fi
	rm -rf "$work"
	exit "$status"
}
trap clean_up EXIT

# Other tests may use the daemon too.
ours >"$work/before"
# No line of nothing, which would be found in every other.
echo none >>"$work/before"

step 'Start'
timeout 300 "${compose[@]}" --env-file "$env_file" -f "$work/deploy/docker-compose.yml" up -d
container() { up_and_down ps -q "$1"; }
wait_for() {
	local what=$1
	shift
	for _ in $(seq 120); do
		if "$@"; then
			pass "$what"
			return
		fi
		sleep 0.5
	done
	fail "$what: not within a minute"
}
healthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$(container "$1")")" = healthy ]; }
for name in db docker-gate sandboxd; do wait_for "$name is healthy" healthy "$name"; done

# call STATUS WHAT CURL-ARGUMENTS...: the answer is in $answer.
call() {
	local status=$1 what=$2 code
	shift 2
	code=$(curl -sS --max-time 60 -o "$work/answer" -w '%{http_code}' "$@") || true
	answer=$(head -c 4000 "$work/answer")
	[ "$code" = "$status" ] && pass "$what: $code" || fail "$what: $code instead of $status: $answer"
}
ready() { [ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/sandbox/readyz")" = 200 ]; }
wait_for 'the service is ready' ready

# ---------------------------------------------------------------------------------
step 'What each container may do'
for name in gateway sandboxd docker-gate db; do
	shown=$(docker inspect -f '{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} {{.HostConfig.Privileged}}' "$(container $name)")
	is "$name is hardened" "$shown" 'true [ALL] [no-new-privileges:true] false'
done
for name in sandboxd docker-gate db; do
	pid=$(docker inspect -f '{{.State.Pid}}' "$(container $name)")
	is "$name has no capability" "$(sed -n 's/^CapEff:\t//p' "/proc/$pid/status")" 0000000000000000
	[ "$(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "/proc/$pid/status")" != 0 ] || fail "$name runs as root"
	pass "$name is not root"
done
with_socket=$(docker ps -q | while read -r id; do
	docker inspect -f '{{.Id}} {{range .Mounts}}{{.Source}} {{end}}' "$id"
done | grep -F docker.sock | cut -d ' ' -f 1)
is 'the gate alone has the Docker socket' "$with_socket" "$(docker inspect -f '{{.Id}}' "$(container docker-gate)")"
networks() { docker inspect -f '{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}' "$(container "$1")" | sed 's/[^ ]*_//g'; }
is 'the database is on a network of its own' "$(networks db)" 'store '
is 'so is the gate' "$(networks docker-gate)" 'docker '
is 'the gateway reaches the service alone' "$(networks gateway)" 'front public '

# ---------------------------------------------------------------------------------
step 'The gateway'
# As docs/deploy.md says.
acme=$(up_and_down exec -T sandboxd sandboxd token --tenant acme)
auth=(-H "Authorization: Bearer $acme")
json=(-H 'Content-Type: application/json')
call 200 'GET /healthz' "$url/healthz"
call 200 'GET /v1/sandbox/healthz' "$url/v1/sandbox/healthz"
call 200 'GET /v1/sandbox/readyz' "$url/v1/sandbox/readyz"
for path in / /execute /metrics /v1/sandbox/metrics /v1/sandbox//metrics /v1/sandbox/%6detrics \
	/v1/sandbox/v1/sandbox/metrics /v1/sandbox/x/../metrics /V1/Sandbox/metrics; do
	call 404 "GET $path stays inside" --path-as-is "${auth[@]}" "$url$path"
done
call 401 'no token' "${json[@]}" -d '{"code": "1"}' "$url/v1/sandbox/execute"
wrong=$(SANDBOX_JWT_SECRET=$(printf 'x%.0s' $(seq 64)) "$work/binary/sandboxd" token --tenant acme)
call 401 'a token of somebody else' -H "Authorization: Bearer $wrong" "${json[@]}" -d '{"code": "1"}' "$url/v1/sandbox/execute"
truncate -s 60M "$work/large"
call 413 'a body that is too large' "${auth[@]}" "${json[@]}" --data-binary "@$work/large" "$url/v1/sandbox/execute"

# ---------------------------------------------------------------------------------
step 'Sandboxes'
execute() { call 200 "$1" "${auth[@]}" "${json[@]}" -d "$2" "$url/v1/sandbox/execute"; }
execute 'pandas' '{"session_id": "demo", "code": "import pandas as pd\nprint(pd.DataFrame({\"a\": [1, 2, 39]}).a.sum())"}'
has 'pandas adds' "$answer" '"stdout":"42\n"'
owner=$(docker ps -a --filter label=dev.sandboxd.kind=sandbox --format '{{.ID}} {{.Label "dev.sandboxd.owner"}}' |
	grep -vFf "$work/before" | sed -n '1s/.* //p')
[ -n "$owner" ] || fail 'no sandbox has our label, so the test would not see what is left'
label=$label=$owner
execute 'a plot, with the root read-only' '{"session_id": "demo", "code": "import matplotlib.pyplot as p\np.plot([1, 4, 9])\np.savefig(\"plot.png\")\nimport os, numpy, scipy.stats, openpyxl, PIL, requests, IPython\nprint(os.path.getsize(\"plot.png\") > 1000)"}'
has 'the plot is there, and nothing complains' "$answer" '"stdout":"True\n","stderr":""'
execute 'who it is' '{"session_id": "demo", "code": "import os\nprint(os.getuid(), os.getcwd())\ntry:\n  open(\"/x\", \"w\")\nexcept OSError as e: print(e.strerror)"}'
has 'a user without rights on a read-only root' "$answer" '65532 /workspace\nRead-only file system'
execute 'no network' '{"session_id": "demo", "code": "import socket\nfor host in \"db\", \"docker-gate\", \"172.17.0.1\":\n  try:\n    socket.create_connection((host, 5432), 2)\n    print(\"reached\", host)\n  except OSError as e: print(\"no\")"}'
has 'neither the database nor the gate is reached' "$answer" '"stdout":"no\nno\nno\n"'
for language in javascript typescript bash; do
	code='console.log(6 * 7)'
	[ $language != bash ] || code='git --version >/dev/null && echo 42'
	execute "$language" "{\"session_id\": \"demo\", \"language\": \"$language\", \"code\": \"$code\"}"
	has "$language answers" "$answer" '"stdout":"42\n"'
done

# Each event with the time at which it came: the first must come long before the last.
curl -sN --max-time 30 "${auth[@]}" "${json[@]}" "$url/v1/sandbox/execute" \
	-d '{"session_id": "demo", "stream": true, "code": "import time\nprint(1, flush=True)\ntime.sleep(3)\nprint(2)"}' |
	while IFS= read -r line; do
		[[ $line != 'data: {"text"'* ]] || echo "$(date +%s%3N) $line"
	done >"$work/events"
[ "$(wc -l <"$work/events")" -ge 2 ] || fail "events: $(cat "$work/events")"
took=$(($(sed -n '$s/ .*//p' "$work/events") - $(sed -n '1s/ .*//p' "$work/events")))
[ "$took" -gt 2000 ] && pass "the first came $took ms before the last" || fail "events came $took ms apart"

call 201 'a process' "${auth[@]}" "${json[@]}" -d '{"session_id": "demo", "command": "cat"}' "$url/v1/sandbox/processes"
id=$(sed 's/.*"process_id":"\([^"]*\)".*/\1/' "$work/answer")
switched=$(curl -s -i -N --http1.1 --max-time 2 "${auth[@]}" -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
	-H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' \
	"$url/v1/sandbox/processes/$id/attach" | tr -d '\0' | head -c 2000 || true)
has 'a WebSocket passes' "$switched" '101 Switching Protocols'
has 'and its first frame' "$switched" '"attached"'

printf 'hello' >"$work/hello.txt"
tar -C "$work" -cf "$work/files.tar" hello.txt
call 200 'an archive in' "${auth[@]}" -H 'Content-Type: application/x-tar' --data-binary "@$work/files.tar" "$url/v1/sandbox/sessions/acme/demo/copy"
execute 'reads it' '{"session_id": "demo", "code": "print(open(\"hello.txt\").read())"}'
has 'the archive is there' "$answer" '"stdout":"hello\n"'

step 'A service that is killed'
docker kill "$(container sandboxd)" >/dev/null
call 502 'the gateway says so' -H 'X-API-Key: key-that-nobody-logs' "$url/v1/sandbox/sessions?token=key-that-nobody-logs"
up_and_down up -d >/dev/null 2>&1
wait_for 'it is ready again' ready
execute 'the session goes on' '{"session_id": "demo", "code": "print(open(\"hello.txt\").read())"}'
has 'with its files' "$answer" '"stdout":"hello\n"'

step 'The end'
sandboxes() { ours --filter label=dev.sandboxd.kind=sandbox; }
is 'one container and one volume for one session' "$(sandboxes | wc -l)" 2
code=$(curl -sS --max-time 60 -o "$work/answer" -w '%{http_code}' -X DELETE "${auth[@]}" "$url/v1/sandbox/sessions/acme/demo")
[[ $code == 20[04] ]] && pass "DELETE of the session: $code" || fail "DELETE: $code: $(cat "$work/answer")"
gone() { [ -z "$(sandboxes)" ]; }
wait_for 'its container and its volume are gone' gone
logs=$(docker logs "$(container gateway)" 2>&1)
has 'the gateway has a log of requests' "$logs" '/v1/sandbox/execute'
has 'and of errors' "$logs" http.log.error
[[ $logs != *"$acme"* && $logs != *key-that-nobody-logs* ]] && pass 'without tokens' || fail 'a token is in the log of the gateway'
for name in sandboxd docker-gate; do
	logs=$(docker logs "$(container $name)" 2>&1)
	[[ $logs != *"$acme"* && $logs != *"$secret"* ]] && pass "nor has $name" || fail "a secret is in the log of $name"
done
up_and_down down -v --timeout 40 2>&1 | grep -i error && fail 'down'
is 'nothing is left' "$(ours | wc -l)" 0

printf '\nAll is well.\n'
