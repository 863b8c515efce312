"""Speaks to a process over its WebSocket (RFC 6455), with nothing but the standard library.

usage: attach.py URL SESSION
"""

import base64
import hashlib
import json
import os
import socket
import sys
import urllib.parse
import urllib.request

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Socket:
    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.stream = socket.create_connection((parts.hostname, parts.port), timeout=20)
        key = base64.b64encode(os.urandom(16)).decode()
        self.stream.sendall(
            f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
            "Sec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.read = self.stream.makefile("rb")
        status = self.read.readline().decode().strip()
        headers = {}
        while line := self.read.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        magic = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode()
        if " 101 " not in status or headers.get("sec-websocket-accept") != accept:
            sys.exit(f"no WebSocket: {status}")

    def send(self, kind, data):
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[n % 4] for n, byte in enumerate(data))
        # Nothing here is longer than a short frame.
        self.stream.sendall(bytes([0x80 | kind, 0x80 | len(data)]) + mask + masked)

    def next(self):
        while True:
            kind, length = self.read.read(2)
            if length == 126:
                length = int.from_bytes(self.read.read(2), "big")
            elif length == 127:
                length = int.from_bytes(self.read.read(8), "big")
            data = self.read.read(length)
            if kind & 15 == PING:
                self.send(PONG, data)
            else:
                return kind & 15, data


def main(url, session):
    argv = ["python3", "-c", "while True: print(eval(input()), flush=True)"]
    body = json.dumps({"session_id": session, "argv": argv}).encode()
    request = urllib.request.Request(
        f"{url}/processes", body, {"content-type": "application/json"}
    )
    process = json.load(urllib.request.urlopen(request))
    path = f"{url}/processes/{process['process_id']}/attach"
    attached = Socket(path)
    kind, data = attached.next()
    print("<-", data.decode())
    for line, answer in [("6 * 7", "42"), ("'process'.upper()", "PROCESS")]:
        print("->", line)
        attached.send(BINARY, line.encode() + b"\n")
        kind, data = attached.next()
        print("<-", data.decode().strip())
        if (kind, data.decode().strip()) != (BINARY, answer):
            sys.exit(f"expected {answer}")
    attached.send(TEXT, b'{"type": "signal", "signal": "SIGTERM"}')
    kind, data = attached.next()
    print("<-", data.decode())
    if json.loads(data).get("signal") != 15:
        sys.exit("expected its end by SIGTERM")


main(*sys.argv[1:])
