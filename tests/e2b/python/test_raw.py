"""What no SDK sends: frames that lie, streams that stop, readers that do not read."""

import json
import os
import socket
import struct
import time
import urllib.parse

import pytest
from conftest import ORIGIN, routing, until

HOST, PORT = urllib.parse.urlsplit(ORIGIN).hostname, urllib.parse.urlsplit(ORIGIN).port
START = "/process.Process/Start"


def frame(message, flags=0, length=None):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("!BI", flags, len(data) if length is None else length) + data


def shell(line, **more):
    config = {"cmd": "/bin/bash", "args": ["-c", line]}
    return {"process": config, "stdin": False, **more}


def connected(buffer=None):
    client = socket.socket()
    if buffer:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.settimeout(30)
    client.connect((HOST, PORT))
    return client


def head(method, path, headers):
    lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}:{PORT}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def streaming(sbx, **more):
    return {
        **routing(sbx, 49983),
        "Content-Type": "application/connect+json",
        "Connect-Protocol-Version": "1",
        **more,
    }


def answer(client):
    """Status, headers and the whole body of an answer, chunked or not."""
    file = client.makefile("rb")
    status = int(file.readline().split()[1])
    headers = {}
    while (line := file.readline().strip()):
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(file.readline(), 16):
            body += file.read(size)
            file.readline()
        file.readline()
    else:
        body = file.read(int(headers["content-length"]))
    return status, headers, body


def frames(body):
    """Messages, and what the last frame says."""
    messages = []
    while body:
        flags, length = struct.unpack("!BI", body[:5])
        data, body = body[5 : 5 + length], body[5 + length :]
        if flags & 2:
            assert body == b"", body
            return messages, json.loads(data)
        messages.append(json.loads(data))
    raise AssertionError(f"no last frame after {messages}")


def rpc(sbx, body, path=START, **headers):
    with connected() as client:
        all_headers = streaming(sbx, **{"Content-Length": len(body), **headers})
        client.sendall(head("POST", path, all_headers) + body)
        return answer(client)


def works(sbx):
    """The neighbour's call, and one of our own."""
    assert sbx.commands.run("echo on", timeout=20).stdout == "on\n"


def test_a_stream_by_hand(sbx):
    status, headers, body = rpc(sbx, frame(shell("echo hi; exit 3")))
    assert (status, headers["content-type"]) == (200, "application/connect+json")
    messages, end = frames(body)
    events = [it["event"] for it in messages]
    assert events[0]["start"]["pid"] > 0
    assert {"data": {"stdout": "aGkK"}} in events
    assert events[-1]["end"]["exitCode"] == 3
    assert events[-1]["end"]["status"] == "exit status 3"
    assert end == {}


def test_a_good_exit_leaves_out_its_zero(sbx):
    messages, _ = frames(rpc(sbx, frame(shell("true")))[2])
    end = messages[-1]["event"]["end"]
    assert end["exited"] is True and end["status"] == "exit status 0"
    assert end.get("exitCode", 0) == 0 and not end.get("error")


BROKEN = {
    "a length beyond the body": frame(shell("true"), length=10_000),
    "a length of four gigabytes": frame(shell("true"), length=0xFFFFFFFF),
    "half a header": b"\0\0",
    "nothing": b"",
    "no JSON": frame(b"{nonsense"),
    "JSON of another kind": frame(b"[1, 2]"),
    "a field of another kind": frame({"process": 5}),
    "bytes that are no text": frame(b"\xff\xfe{}"),
    "an end before the message": frame({}, flags=2),
    "two messages": frame(shell("true")) + frame(shell("true")),
    "JSON that is very deep": frame(b'{"process":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "no command": frame({"process": {}}),
    "a command that is not there": frame({"process": {"cmd": "/no/such"}}),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_stream_ends_with_an_error(sbx, kind):
    started = time.monotonic()
    status, headers, body = rpc(sbx, BROKEN[kind])
    assert time.monotonic() - started < 20
    if status == 200:
        _, end = frames(body)
        assert isinstance(end["error"]["code"], str), end
        assert end["error"]["code"] not in ("internal", "unknown"), end
    else:
        assert 400 <= status < 500, (status, body)
    works(sbx)


@pytest.mark.parametrize(
    ("kind", "body", "wanted"),
    [
        ("no JSON", b"{nonsense", "invalid_argument"),
        ("another kind", b'"text"', "invalid_argument"),
        ("a field of another kind", b'{"process": "text"}', "invalid_argument"),
    ],
)
def test_a_broken_call_is_an_invalid_argument(sbx, kind, body, wanted):
    headers = {"Content-Type": "application/json"}
    status, _, said = rpc(sbx, body, "/process.Process/SendSignal", **headers)
    assert (status, json.loads(said)["code"]) == (400, wanted)
    works(sbx)


def test_a_deep_call_is_answered(sbx):
    """Fields that nobody knows are passed over, however deep."""
    body = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    headers = {"Content-Type": "application/json"}
    status, _, _ = rpc(sbx, body, "/process.Process/List", **headers)
    assert status in (200, 400)
    works(sbx)


def test_codes_are_words_and_have_their_status(sbx):
    json_type = {"Content-Type": "application/json"}
    for path, body, status, code in [
        ("/filesystem.Filesystem/Stat", {"path": "not-there"}, 404, "not_found"),
        ("/filesystem.Filesystem/MakeDir", {"path": "."}, 409, "already_exists"),
        ("/process.Process/SendSignal", {"process": {"pid": 999_999}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found"),
        ("/process.Process/SendSignal", {"process": {"pid": 1}, "signal": "SIGNAL_OF_NOBODY"}, 400, "invalid_argument"),
        ("/process.Process/NoSuchMethod", {}, 404, None),
        ("/filesystem.Filesystem/GetWatcherEvents", {"watcherId": "none"}, 404, "not_found"),
    ]:
        got, _, said = rpc(sbx, json.dumps(body).encode(), path, **json_type)
        assert got in (status, 501), (path, said)
        if code:
            assert json.loads(said)["code"] == code, (path, said)


def test_a_compressed_frame_that_nobody_announced(sbx):
    """The protocol's own word for it is `internal`."""
    _, end = frames(rpc(sbx, frame(shell("true"), flags=1))[2])
    assert end["error"]["code"] == "internal", end


def test_a_frame_that_is_too_large_is_refused(sbx):
    big = json.dumps(shell("true", tag="x" * 90_000_000)).encode()
    try:
        status, _, body = rpc(sbx, frame(big))
    except (ConnectionError, ValueError, IndexError):
        status = 413
    if status == 200:
        _, end = frames(body)
        assert end["error"]["code"] in ("resource_exhausted", "invalid_argument", "out_of_range"), end
    else:
        assert 400 <= status < 500
    works(sbx)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST ",
        b"POST /process.Process/Start HTTP/1.1\r\nHost: x\r\n",
        b"\x16\x03\x01\x02\x00garbage",
        b"GET / HTTP/9.9\r\n\r\n",
        b"G\0T / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 1_000_000 + b"\r\n\r\n",
    ],
)
def test_a_connection_that_is_no_request(sbx, sent):
    with connected() as client:
        try:
            client.sendall(sent)
        except ConnectionError:
            pass
        works(sbx)


def test_a_half_sent_request_costs_the_neighbour_nothing(sbx):
    clients = []
    for sent in (b"\0\0", b"\0\0\0\x01\0{", b""):
        client = connected()
        headers = streaming(sbx, **{"Content-Length": 300})
        client.sendall(head("POST", START, headers) + sent)
        clients.append(client)
    for _ in range(3):
        works(sbx)
    for client in clients:
        client.close()
    works(sbx)


def test_an_upload_that_stops_leaves_no_half_file(sbx):
    sbx.files.write("whole", "before")
    headers = routing(sbx, 49983, **{"Content-Length": 1000, "Content-Type": "application/octet-stream"})
    with connected() as client:
        client.sendall(head("POST", "/files?path=whole", headers) + b"x" * 500)
        time.sleep(0.3)
    works(sbx)
    until("nothing is half there", lambda: sbx.files.read("whole") == "before")


def test_input_that_is_streamed_and_stops(sbx):
    handle = sbx.commands.run("cat > streamed; echo end", background=True, stdin=True)
    headers = streaming(sbx, **{"Transfer-Encoding": "chunked"})
    first = frame({"start": {"process": {"pid": handle.pid}}})
    data = frame({"data": {"input": {"stdin": "aGk="}}})
    with connected() as client:
        client.sendall(head("POST", "/process.Process/StreamInput", headers))
        for part in (first, data, data[:7]):
            client.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        come = lambda: sbx.files.exists("streamed") and sbx.files.read("streamed") == "hi"
        until("it has come", come)
    # The process lives on, and its input is open.
    handle.send_stdin(" there")
    handle.close_stdin()
    assert handle.wait().stdout == "end\n"
    assert sbx.files.read("streamed") == "hi there"


def test_a_reader_that_does_not_read_holds_its_program_not_the_neighbour(sbx):
    line = "head -c 100000000 /dev/zero; echo done > slow-reader"
    with connected(buffer=4096) as client:
        body = frame(shell(line))
        client.sendall(head("POST", START, streaming(sbx, **{"Content-Length": len(body)})) + body)
        client.recv(1000)
        for _ in range(3):
            time.sleep(0.3)
            works(sbx)
        assert not sbx.files.exists("slow-reader")
    works(sbx)


def test_a_download_that_is_not_read(sbx):
    sbx.commands.run("head -c 50000000 /dev/zero > unread")
    with connected(buffer=4096) as client:
        client.sendall(head("GET", "/files?path=unread", routing(sbx, 49983)))
        client.recv(1000)
        works(sbx)
    sbx.files.remove("unread")


def test_silence_is_filled_with_keepalives(sbx):
    body = frame(shell("sleep 3"))
    headers = {"Keepalive-Ping-Interval": "1"}
    messages, end = frames(rpc(sbx, body, **headers)[2])
    assert sum("keepalive" in it["event"] for it in messages) >= 2, messages
    assert end == {}


def test_the_deadline_of_a_call_ends_its_process(sbx):
    body = frame(shell("echo $$ > deadline.pid; exec sleep 68"))
    started = time.monotonic()
    _, end = frames(rpc(sbx, body, **{"Connect-Timeout-Ms": "1000"})[2])
    assert end["error"]["code"] == "deadline_exceeded"
    assert time.monotonic() - started < 8
    gone = "kill -0 $(cat deadline.pid) 2>/dev/null && echo there || echo gone"
    until("it is killed", lambda: sbx.commands.run(gone).stdout == "gone\n")


@pytest.mark.parametrize("timeout", ["x", "-1", "99999999999"])
def test_a_deadline_that_is_none(sbx, timeout):
    status, _, body = rpc(sbx, frame(shell("true")), **{"Connect-Timeout-Ms": timeout})
    if status == 200:
        _, end = frames(body)
        assert end == {} or end["error"]["code"] == "invalid_argument", end
    else:
        assert status == 400
    works(sbx)


def test_lines_of_code_are_ascii_and_none_is_empty(code):
    body = json.dumps({"code": "print('\u00e4\u2028\U0001f600')\n'\u00e4\u2029'"}).encode()
    headers = routing(code, 49999, **{
        "X-Access-Token": code._envd_access_token,
        "Content-Type": "application/json",
        "Content-Length": len(body),
    })
    with connected() as client:
        client.sendall(head("POST", "/execute", headers) + body)
        status, _, said = answer(client)
    assert status == 200 and said.isascii() and said.endswith(b"\n")
    lines = [json.loads(line) for line in said.split(b"\n")[:-1]]
    assert lines[0]["type"] == "number_of_executions"
    assert lines[-1]["type"] == "end_of_execution"
    assert "".join(it["text"] for it in lines if it["type"] == "stdout") == "\u00e4\u2028\U0001f600\n"
    (result,) = [it for it in lines if it["type"] == "result"]
    assert (result["text"], result["is_main_result"]) == ("\u00e4\\u2029", True)
    assert None not in result.values()


def test_silence_of_code_is_filled_too(code):
    body = json.dumps({"code": "import time; time.sleep(6)"}).encode()
    headers = routing(code, 49999, **{
        "X-Access-Token": code._envd_access_token,
        "Content-Type": "application/json",
        "Content-Length": len(body),
    })
    with connected() as client:
        client.sendall(head("POST", "/execute", headers) + body)
        _, _, said = answer(client)
    kinds = [json.loads(line)["type"] for line in said.splitlines()]
    assert "keepalive" in kinds


def test_who_leaves_interrupts_the_code(code):
    body = json.dumps({"code": "import time\nfor _ in range(600): time.sleep(0.1)"}).encode()
    headers = routing(code, 49999, **{
        "X-Access-Token": code._envd_access_token,
        "Content-Type": "application/json",
        "Content-Length": len(body),
    })
    with connected() as client:
        client.sendall(head("POST", "/execute", headers) + body)
        client.recv(1000)
        time.sleep(0.3)
    started = time.monotonic()
    assert code.run_code("6 * 7", timeout=30).text == "42"
    assert time.monotonic() - started < 10


def test_nothing_is_compressed(sbx):
    body = frame(shell("head -c 100000 /dev/zero | tr '\\0' x"))
    headers = {"Accept-Encoding": "zstd, gzip, br", "Connect-Accept-Encoding": "identity"}
    _, answered, said = rpc(sbx, body, **headers)
    assert "content-encoding" not in answered
    assert frames(said)[1] == {}


def test_the_environment_of_the_service_is_not_inside(sbx):
    said = sbx.commands.run("env; cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n' || true").stdout
    assert os.environ["E2B_API_KEY"] not in said
    assert sbx._envd_access_token not in said
