#!/usr/bin/env bash
# A tour of the service by curl: each request and its answer. Fails if an
# answer is not what it should be.
set -euo pipefail

sandboxd=$1
state=$(mktemp -d)
chmod 711 "$state"
trap 'kill "$service" 2>/dev/null && wait "$service" 2>/dev/null; rm -rf "$state"' EXIT

SANDBOX_STATE_DIR=$state SANDBOX_LISTEN=127.0.0.1:0 SANDBOX_LOG=warn "$sandboxd" serve >"$state/out" &
service=$!
for _ in $(seq 100); do
	url=$(sed -n 's/^listening on //p' "$state/out")
	[ -n "$url" ] && break
	sleep 0.1
done
url=$url/v1/sandbox

# show METHOD PATH STATUS TEXT [BODY]: the answer must have the status and hold the text.
show() {
	local method=$1 path=$2 status=$3 text=$4 body=${5-}
	printf '\n\033[1m%s %s\033[0m %s\n' "$method" "$path" "$body"
	local args=(-sS -X "$method" -w '\n%{http_code}' "$url$path")
	[ -n "$body" ] && args+=(-H 'content-type: application/json' -d "$body")
	local answer code
	answer=$(curl "${args[@]}")
	code=${answer##*$'\n'}
	answer=${answer%$'\n'*}
	printf '%s %s\n' "$code" "$answer"
	if [ "$code" != "$status" ] || [[ "$answer" != *"$text"* ]]; then
		echo "expected $status and: $text" >&2
		exit 1
	fi
}

show GET /healthz 200 ok
for _ in $(seq 100); do
	[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/readyz")" = 200 ] && break
	sleep 0.1
done
show GET /readyz 200 ready
show POST /execute 200 '"stdout":"42\n"' '{"session_id":"demo","code":"print(6 * 7)"}'
show POST /execute 200 'ZeroDivisionError' '{"session_id":"demo","code":"1 / 0"}'
show POST /bash 200 'Linux' '{"session_id":"demo","command":"uname -s; id; ls -la"}'
show POST /write 200 '"created":true' '{"session_id":"demo","path":"src/hello.py","content":"def hello():\n    return \"hello\"\n"}'
show POST /read 200 'def hello' '{"session_id":"demo","path":"src/hello.py"}'
show POST /edit 200 '"replacements":1' '{"session_id":"demo","path":"src/hello.py","old_string":"\"hello\"","new_string":"\"hello, world\""}'
show POST /execute 200 'hello, world' '{"session_id":"demo","code":"from src.hello import hello\nprint(hello())"}'
show POST /grep 200 'src/hello.py' '{"session_id":"demo","pattern":"def \\w+"}'
show POST /glob 200 'src/hello.py' '{"session_id":"demo","pattern":"**/*.py"}'
show POST /ls 200 'hello.py' '{"session_id":"demo","path":"src"}'
show POST /execute 200 '"timed_out":true' '{"session_id":"demo","code":"while True: pass","timeout_seconds":1}'
show POST /bash 200 '"exit_code":0' '{"session_id":"demo","command":"curl -m 2 http://example.com || echo no network"}'
show POST /read 400 invalid_path '{"session_id":"demo","path":"../../etc/passwd"}'
show GET /sessions 200 '"session_id":"demo"'
show GET /sessions/default/demo 200 '"state":"running"'
show GET /backends 200 '"local"'
show DELETE /sessions/default/demo 204 ''
show GET /sessions/default/demo 404 not_found
printf '\nThat was the tour.\n'
