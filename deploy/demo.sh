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

say() { printf '\n\033[1m%s\033[0m %s\n' "$1" "$2"; }

fail() {
	echo "expected $1" >&2
	exit 1
}

# show METHOD PATH STATUS TEXT [BODY]: the answer must have the status and hold the text.
show() {
	local method=$1 path=$2 status=$3 text=$4 body=${5-}
	say "$method $path" "$body"
	local args=(-sS -X "$method" -w '\n%{http_code}' "$url$path")
	[ -n "$body" ] && args+=(-H 'content-type: application/json' -d "$body")
	local code
	answer=$(curl "${args[@]}")
	code=${answer##*$'\n'}
	answer=${answer%$'\n'*}
	printf '%s %s\n' "$code" "$answer"
	if [ "$code" != "$status" ] || [[ "$answer" != *"$text"* ]]; then
		fail "$status and: $text"
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
show POST /sessions/default/made 201 '"labels":{"tour":"yes"}' '{"limits":{"memory":"128m"},"labels":{"tour":"yes"},"files":[{"path":"a.txt","content":"made\n"}]}'
show POST /bash 200 'made' '{"session_id":"made","command":"cat a.txt"}'
show GET '/sessions?label=tour%3Dyes' 200 '"session_id":"made"'
show DELETE /sessions/default/made 204 ''
show GET /sessions 200 '"session_id":"demo"'
show GET /sessions/default/demo 200 '"state":"running"'
show GET /backends 200 '"local"'

say 'POST /execute' 'as a stream: each event when it happens'
stream=$(curl -sSN "$url/execute" -H 'content-type: application/json' -H 'accept: text/event-stream' \
	-d '{"session_id":"demo","code":"import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.2)"}' |
	while IFS= read -r line; do printf '%(%T)T %s\n' -1 "$line"; done | tee /dev/stderr)
[ "$(grep -c 'event: stdout' <<<"$stream")" = 3 ] || fail 'three events of output'
grep -q '"termination":"exited"' <<<"$stream" || fail 'a result'

say 'POST /execute' 'a run that goes on after its answer, and is looked at again'
show POST /execute 202 '"status":"running"' '{"session_id":"demo","code":"import time\ntime.sleep(1)\nprint(\"done\")","wait_seconds":0.1,"execution_id":"tour-1"}'
show GET '/executions/tour-1?wait_seconds=10' 200 '"stdout":"done\n"'

if [ -d /usr/lib/python3/dist-packages/matplotlib ]; then
	show POST /execute 200 '"kind":"plot"' '{"session_id":"demo","timeout_seconds":120,"code":"import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()"}'
	id=$(grep -o '"id":"[0-9a-f-]*"' <<<"$answer" | head -n 1 | cut -d '"' -f 4)
	say "GET /artifacts/$id" ''
	curl -sSf "$url/artifacts/$id" -o "$state/plot.png"
	# Its signature, and its size out of the first chunk.
	[ "$(head -c 8 "$state/plot.png" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || fail 'a PNG'
	size=$(head -c 24 "$state/plot.png" | tail -c 8 | od -An -tu1)
	read -r -a n <<<"$size"
	echo "a PNG of $((n[2] * 256 + n[3])) x $((n[6] * 256 + n[7])) pixels, $(stat -c %s "$state/plot.png") bytes"
else
	say 'a plot' 'left out: the package python3-matplotlib is not installed'
fi

say 'WebSocket /processes/{id}/attach' 'a program that is spoken to'
/usr/bin/python3 "$(dirname "$0")/attach.py" "$url" demo

show DELETE /sessions/default/demo 204 ''
show GET /sessions/default/demo 404 not_found
printf '\nThat was the tour.\n'
