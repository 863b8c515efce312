"""Servers inside a sandbox, reached from outside."""

import os
import socket
import urllib.parse

import httpx
import pytest
from conftest import ORIGIN, plain, routing, until
from e2b import Sandbox
from websockets.sync.client import connect

# HTTP that says what it got, and a WebSocket that sends back what it is sent.
SERVER = r'''
import base64, hashlib, http.server, json, socketserver, struct, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.headers.get("Upgrade", "").lower() == "websocket":
            return self.websocket()
        if self.path == "/slow":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for n in range(3):
                self.wfile.write(b"2\r\n%d\n\r\n" % n)
                self.wfile.flush()
                time.sleep(0.3)
            return self.wfile.write(b"0\r\n\r\n")
        self.answer(b"")

    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(body)

    do_PUT = do_DELETE = do_PATCH = do_POST

    def answer(self, body):
        said = json.dumps({
            "method": self.command, "path": self.path, "body": len(body),
            "sha": hashlib.sha256(body).hexdigest(),
            "headers": {k.lower(): v for k, v in self.headers.items()},
        }).encode()
        self.send_response(418 if self.path == "/teapot" else 200)
        self.send_header("Content-Length", str(len(said)))
        self.send_header("X-From-Inside", "yes")
        self.end_headers()
        self.wfile.write(said)

    def websocket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
        self.send_response(101)
        for header in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", accept)):
            self.send_header(*header)
        self.end_headers()
        while head := self.rfile.read(2):
            size = head[1] & 127
            if size == 126:
                size = struct.unpack("!H", self.rfile.read(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.rfile.read(8))[0]
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(size)))
            if size < 126:
                length = bytes([size])
            elif size < 65536:
                length = bytes([126]) + struct.pack("!H", size)
            else:
                length = bytes([127]) + struct.pack("!Q", size)
            self.wfile.write(head[:1] + length + data)
            self.wfile.flush()
            if head[0] & 15 == 8:
                break
        self.close_connection = True

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64

Server((sys.argv[2], int(sys.argv[1])), Handler).serve_forever()
'''


def serve(sandbox, port=3000, host="127.0.0.1"):
    sandbox.files.write("server.py", SERVER)
    line = f"exec python3 server.py {port} {host}"
    sandbox.commands.run(line, background=True, timeout=0).disconnect()
    until(
        "the server listens",
        lambda: plain("GET", "/", routing(sandbox, port)).status_code == 200,
    )


@pytest.fixture(scope="module")
def served(sbx):
    serve(sbx)
    return sbx


def test_requests_reach_the_server(served):
    answer = plain("GET", "/a/b%20c?d=e&f", routing(served, 3000, **{"X-Mine": "kept"}))
    assert (answer.status_code, answer.headers["x-from-inside"]) == (200, "yes")
    said = answer.json()
    assert (said["method"], said["path"]) == ("GET", "/a/b%20c?d=e&f")
    assert said["headers"]["x-mine"] == "kept"
    assert plain("GET", "/teapot", routing(served, 3000)).status_code == 418


def test_no_token_of_ours_goes_inside(served):
    headers = routing(served, 3000, **{"X-Access-Token": served._envd_access_token})
    headers["X-API-Key"] = "theirs"
    headers["E2B-Traffic-Access-Token"] = served.traffic_access_token or "given"
    text = plain("GET", "/", headers).text.lower()
    for secret in ["e2b-sandbox", "e2b-traffic", (served.traffic_access_token or "given").lower()]:
        assert secret not in text, text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_bodies_go_in_whole(served, method):
    import hashlib

    body = os.urandom(3_000_000)
    said = plain(method, "/", routing(served, 3000), content=body).json()
    assert (said["method"], said["body"]) == (method, len(body))
    assert said["sha"] == hashlib.sha256(body).hexdigest()
    chunks = (body[at : at + 70_000] for at in range(0, len(body), 70_000))
    said = plain(method, "/", routing(served, 3000), content=chunks).json()
    assert said["sha"] == hashlib.sha256(body).hexdigest()


def test_an_answer_is_streamed(served):
    import time

    with httpx.Client(timeout=30, trust_env=False) as client:
        with client.stream("GET", ORIGIN + "/slow", headers=routing(served, 3000)) as answer:
            times = [(time.monotonic(), chunk) for chunk in answer.iter_raw()]
    assert b"".join(chunk for _, chunk in times) == b"0\n1\n2\n"
    assert times[-1][0] - times[0][0] > 0.3


def websocket(sandbox, port, **more):
    url = "ws" + ORIGIN[4:] + "/socket?a=b"
    return connect(
        url, additional_headers=routing(sandbox, port, **more), proxy=None, max_size=None
    )


def test_a_websocket_goes_both_ways(served):
    with websocket(served, 3000) as socket:
        for message in ["\u00e4\u2028", b"\x00\xff" * 10, "x" * 200_000]:
            socket.send(message)
            assert socket.recv(timeout=20) == message


def test_an_idle_websocket_stays(served):
    with websocket(served, 3000) as first, websocket(served, 3000) as second:
        for n in range(3):
            first.send(f"first {n}")
            second.send(f"second {n}")
            assert second.recv(timeout=10) == f"second {n}"
            assert first.recv(timeout=10) == f"first {n}"


def test_a_closed_port_is_said(sbx):
    answer = plain("GET", "/", routing(sbx, 3999))
    assert answer.status_code == 502
    body = answer.json()
    assert body["message"] == "The sandbox is running but port is not open"
    assert (body["sandboxId"], body["port"], body["code"]) == (sbx.sandbox_id, 3999, 502)


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1", ""])
def test_a_port_that_cannot_be_is_refused(sbx, port):
    headers = {**routing(sbx, 3000), "E2b-Sandbox-Port": port}
    answer = plain("GET", "/", headers)
    assert answer.status_code in (400, 404, 502), answer.text


def test_the_host_name_says_its_sandbox(served):
    host = served.get_host(3000)
    assert host.startswith(f"3000-{served.sandbox_id}.")
    headers = {"Host": host}
    if served.traffic_access_token:
        headers["E2B-Traffic-Access-Token"] = served.traffic_access_token
    answer = plain("GET", "/by-name", headers)
    assert (answer.status_code, answer.json()["path"]) == (200, "/by-name")
    # A name chooses alone: headers that a page inside may set do not.
    headers["E2b-Sandbox-Port"] = "3999"
    assert plain("GET", "/by-name", headers).json()["path"] == "/by-name"


def test_private_traffic_needs_its_token():
    options = {"timeout": 100, "network": {"allow_public_traffic": False}}
    with Sandbox.create(**options) as sandbox:
        assert sandbox.traffic_access_token
        serve(sandbox)
        for token in [None, "wrong", sandbox._envd_access_token]:
            headers = routing(sandbox, 3000)
            headers.pop("E2B-Traffic-Access-Token")
            if token:
                headers["E2B-Traffic-Access-Token"] = token
            answer = plain("GET", "/", headers)
            assert answer.status_code == 403, answer.text
            assert "traffic access token" in answer.text
        with websocket(sandbox, 3000) as socket:
            socket.send("in")
            assert socket.recv(timeout=10) == "in"
        # Not for what has a token of its own.
        assert sandbox.commands.run("echo on").stdout == "on\n"


def test_public_traffic_needs_none():
    options = {"timeout": 100, "network": {"allow_public_traffic": True}}
    with Sandbox.create(**options) as sandbox:
        serve(sandbox)
        headers = routing(sandbox, 3000)
        headers.pop("E2B-Traffic-Access-Token", None)
        assert plain("GET", "/", headers).status_code == 200


def test_a_server_that_ends_in_the_middle(sbx):
    sbx.files.write(
        "ends.py",
        "import socket\ns = socket.create_server(('127.0.0.1', 3100))\n"
        "while True:\n c, _ = s.accept(); c.recv(9999)\n"
        " c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\nhalf'); c.close()\n",
    )
    sbx.commands.run("exec python3 ends.py", background=True, timeout=0).disconnect()
    until("it listens", lambda: sbx.commands.run(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 3100))' 2>&1 || true"
    ).stdout == "")
    with pytest.raises(httpx.HTTPError):
        plain("GET", "/", routing(sbx, 3100))


def test_a_server_that_says_nothing_sensible(sbx):
    sbx.files.write(
        "garbage.py",
        "import socket\ns = socket.create_server(('127.0.0.1', 3200))\n"
        "while True:\n c, _ = s.accept(); c.recv(9999); c.sendall(b'\\0garbage\\r\\n\\r\\n'); c.close()\n",
    )
    sbx.commands.run("exec python3 garbage.py", background=True, timeout=0).disconnect()
    until("it listens", lambda: sbx.commands.run(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 3200))' 2>&1 || true"
    ).stdout == "")
    assert plain("GET", "/", routing(sbx, 3200)).status_code == 502


def test_the_services_own_loopback_is_not_reached(sbx):
    """A port inside is the sandbox's, whatever listens outside on the same number."""
    port = urllib.parse.urlsplit(ORIGIN).port
    assert plain("GET", "/health", routing(sbx, port)).status_code == 502
    with socket.create_server(("127.0.0.1", 0)) as outside:
        number = outside.getsockname()[1]
        assert plain("GET", "/", routing(sbx, number)).status_code == 502


def test_many_at_once(served):
    import concurrent.futures

    def one(n):
        return plain("GET", f"/{n}", routing(served, 3000)).json()["path"]

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert list(pool.map(one, range(64))) == [f"/{n}" for n in range(64)]


def test_a_server_that_does_not_read_holds_up_nobody():
    silent = "import socket, time; s = socket.create_server(('127.0.0.1', 3000)); time.sleep(600)"
    with Sandbox.create(timeout=120) as sandbox:
        sandbox.files.write("silent.py", silent)
        sandbox.commands.run("exec python3 silent.py", background=True, timeout=0).disconnect()
        until(
            "it listens",
            lambda: "0BB8" in sandbox.commands.run("cat /proc/net/tcp").stdout,
        )
        url = urllib.parse.urlsplit(ORIGIN)
        head = "".join(f"{name}: {value}\r\n" for name, value in routing(sandbox, 3000).items())
        head = f"POST / HTTP/1.1\r\nHost: {url.netloc}\r\n{head}Content-Length: 100000000\r\n\r\n"
        clients = []
        try:
            for _ in range(16):
                client = socket.create_connection((url.hostname, url.port))
                clients.append(client)
                client.sendall(head.encode())
                client.settimeout(0.5)
                try:
                    for _ in range(64):
                        client.sendall(b"x" * 65536)
                except TimeoutError:
                    pass
            data = "y" * 2_000_000
            sandbox.files.write("after", data, request_timeout=20)
            assert sandbox.commands.run("wc -c < after", timeout=20).stdout.strip() == "2000000"
        finally:
            for client in clients:
                client.close()
        assert sandbox.commands.run("echo on", timeout=20).stdout == "on\n"
