"""Everything by TLS and names: api.DOMAIN and PORT-SANDBOX.DOMAIN."""

import os
import time

import pytest
from conftest import trusted
from e2b import AsyncSandbox, SandboxNotFoundException, TimeoutException
from e2b_code_interpreter import Sandbox
from websockets.sync.client import connect

DOMAIN = os.environ["E2B_DOMAIN"]

ECHO = r'''
import base64, hashlib, http.server, struct

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if "Sec-WebSocket-Key" not in self.headers:
            said = (self.headers["Host"] + self.path).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            return self.wfile.write(said)
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        head = self.rfile.read(2)
        mask = self.rfile.read(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
        self.wfile.write(head[:1] + bytes([len(data)]) + data)
        self.close_connection = True

http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
'''


@pytest.fixture(scope="module")
def served(sbx):
    sbx.files.write("echo.py", ECHO)
    sbx.commands.run("exec python3 echo.py", background=True, timeout=0).disconnect()
    probe = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 3000))' 2>&1 || true"
    for _ in range(200):
        if sbx.commands.run(probe).stdout == "":
            return sbx
        time.sleep(0.05)
    raise AssertionError("the server does not listen")


def test_the_domain_is_told(sbx):
    assert sbx.sandbox_domain == DOMAIN
    assert sbx.get_host(3000) == f"3000-{sbx.sandbox_id}.{DOMAIN}"


def test_commands_files_and_code(sbx):
    assert sbx.commands.run("echo on").stdout == "on\n"
    sbx.files.write("f", "x" * 3_000_000)
    assert len(sbx.files.read("f")) == 3_000_000
    assert sbx.run_code("6 * 7").text == "42"
    assert [it.size for it in sbx.files.list(".") if it.name == "f"] == [3_000_000]


def test_many_streams_of_one_connection(sbx):
    handles = [sbx.commands.run(f"sleep 0.5; echo {n}", background=True) for n in range(30)]
    assert [handle.wait().stdout for handle in handles] == [f"{n}\n" for n in range(30)]


def test_signed_urls_need_nothing_but_their_name(sbx, web):
    sbx.files.write("signed", "by url")
    got = web.get(sbx.download_url("signed", use_signature_expiration=60))
    assert (got.status_code, got.text) == (200, "by url")
    up = sbx.upload_url("sent")
    assert web.post(up, files={"file": ("x", b"sent")}).status_code == 200
    assert sbx.files.read("sent") == "sent"


def test_http_2_is_spoken_and_http_1_too(web):
    import httpx

    url = f"https://api.{DOMAIN}/v2/sandboxes"
    headers = {"X-API-Key": os.environ["E2B_API_KEY"]}
    assert web.get(url, headers=headers).http_version == "HTTP/2"
    old = httpx.get(url, headers=headers, verify=trusted(), trust_env=False)
    assert (old.status_code, old.http_version) == (200, "HTTP/1.1")


def test_a_server_inside_has_its_name(served, web):
    host = served.get_host(3000)
    got = web.get(f"https://{host}/path?a=b")
    assert (got.status_code, got.text.endswith("/path?a=b")) == (200, True)
    # Headers choose nothing where the name has chosen.
    other = {"E2b-Sandbox-Id": "i" + "0" * 20, "E2b-Sandbox-Port": "49983"}
    assert web.get(f"https://{host}/path", headers=other).text == got.text.split("?")[0]
    with connect(f"wss://{host}/", ssl=trusted(), proxy=None) as socket:
        socket.send("through")
        assert socket.recv(timeout=10) == "through"


def test_names_of_nobody(sbx, web):
    gone = web.get(f"https://3000-inobody.{DOMAIN}/")
    assert (gone.status_code, gone.json()["message"]) == (502, "The sandbox was not found")
    closed = web.get(f"https://3999-{sbx.sandbox_id}.{DOMAIN}/")
    assert (closed.status_code, closed.json()["port"]) == (502, 3999)
    assert 400 <= web.get(f"https://x-y-z.{DOMAIN}/").status_code < 600


def test_a_sandbox_that_ends():
    sandbox = Sandbox.create(timeout=100)
    assert sandbox.is_running()
    sandbox.kill()
    assert not sandbox.is_running()
    with pytest.raises(TimeoutException):
        sandbox.commands.run("true")
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(sandbox.sandbox_id)


@pytest.mark.anyio
async def test_the_asynchronous_one():
    sandbox = await AsyncSandbox.create(timeout=100)
    assert (await sandbox.commands.run("echo on")).stdout == "on\n"
    assert await sandbox.pause() is True
    again = await AsyncSandbox.connect(sandbox.sandbox_id, timeout=100)
    assert (await again.commands.run("echo again")).stdout == "again\n"
    await sandbox.kill()
