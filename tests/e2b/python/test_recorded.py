"""Replays what E2B's server and SDKs say to each other (`../recorded`) against the service."""

import json
import os
import pathlib
import re
import struct

import httpx
import pytest
from conftest import ORIGIN

FILES = sorted((pathlib.Path(__file__).parent.parent / "recorded").glob("*.json"))
PORTS = {"envd": 49983, "code": 49999}


def filled(value, known):
    """With what was captured in the place of its name."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda name: known.get(name[1], name[0]), value)
    if isinstance(value, list):
        return [filled(it, known) for it in value]
    if isinstance(value, dict):
        return {key: filled(it, known) for key, it in value.items()}
    return value


def at(value, pointer):
    for part in pointer.strip("/").split("/"):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def kind(value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return type(value).__name__


def same_kinds(example, found, where):
    """Wherever both have a value it is of one kind."""
    if isinstance(example, dict) and isinstance(found, dict):
        for key in example.keys() & found.keys():
            same_kinds(example[key], found[key], f"{where}/{key}")
    elif isinstance(example, list) and isinstance(found, list):
        if example:
            for n, it in enumerate(found):
                same_kinds(example[min(n, len(example) - 1)], it, f"{where}/{n}")
    elif example is not None and found is not None:
        assert kind(example) == kind(found), f"{where}: {found!r}, and not as {example!r}"


def send(client, exchange, known):
    request = filled(exchange["request"], known)
    headers = {}
    if exchange["to"] == "api":
        headers["X-API-KEY"] = os.environ["E2B_API_KEY"]
    else:
        port = PORTS.get(exchange["to"], exchange["to"])
        headers["E2b-Sandbox-Id"] = known["sandbox"]
        headers["E2b-Sandbox-Port"] = str(port)
        if exchange["to"] == "envd":
            headers["X-Access-Token"] = known["token"]
        elif known.get("traffic"):
            headers["E2B-Traffic-Access-Token"] = known["traffic"]
    headers.update(request.get("headers", {}))
    more = {}
    if "body" in request:
        more["json"] = request["body"]
    if "text" in request:
        more["content"] = request["text"].encode()
    if "frames" in request:
        frames = [json.dumps(it).encode() for it in request["frames"]]
        more["content"] = b"".join(struct.pack("!BI", 0, len(it)) + it for it in frames)
    if "multipart" in request:
        more["files"] = [("file", (name, text)) for name, text in request["multipart"]]
    sent = {name: value for name, value in headers.items() if value is not None}
    return client.request(request["method"], ORIGIN + request["path"], headers=sent, **more)


def frames(body):
    """Messages without keepalives; parts of output that follow each other are told as one."""
    messages, end = [], None
    while body:
        flags, length = struct.unpack("!BI", body[:5])
        message, body = json.loads(body[5 : 5 + length]), body[5 + length :]
        if flags & 2:
            end = message
        elif "keepalive" not in message["event"]:
            messages.append(message)
    return messages, end


def check(exchange, answer, known):
    wanted = filled(exchange["response"], known)
    statuses = wanted["status"] if isinstance(wanted["status"], list) else [wanted["status"]]
    assert answer.status_code in statuses, answer.text
    for name, value in wanted.get("headers", {}).items():
        assert answer.headers[name] == value
    if "text" in wanted:
        assert answer.text == wanted["text"]
        return None
    if "end" in wanted and answer.status_code == 200:
        found, end = frames(answer.content)
        same_kinds(wanted["end"], end, "end")
        if "error" in wanted["end"]:
            assert end["error"]["code"] == wanted["end"]["error"]["code"], end
            return None
        assert end == wanted["end"]
        example = wanted["frames"]
        assert len(found) == len(example), found
        for one, other in zip(example, found):
            assert one["event"].keys() == other["event"].keys(), found
    elif "lines" in wanted:
        lines = [json.loads(line) for line in answer.content.splitlines()]
        found = [it for it in lines if it["type"] != "keepalive"]
        example = wanted["lines"]
        assert [it["type"] for it in found] == [it["type"] for it in example], found
        for one, other in zip(example, found):
            assert one.keys() <= other.keys(), found
            one = {key: it for key, it in one.items() if key != "timestamp"}
            same_kinds(one, other, one["type"])
    elif "body" in wanted:
        found, example = answer.json(), wanted["body"]
        assert kind(found) == kind(example), found
        if isinstance(example, list):
            assert len(found) >= len(example), found
        for element in found if isinstance(found, list) else [found]:
            for name in exchange.get("required", []):
                assert element.get(name) is not None, (name, element)
        same_kinds(example, found, "")
    else:
        return None
    for pointer in exchange.get("exact", []):
        assert at(found, pointer) == at(example, pointer), (pointer, found)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_service_says_what_was_recorded(path):
    known, failures = {}, []
    exchanges = json.loads(path.read_text())
    with httpx.Client(timeout=30, trust_env=False) as client:
        for exchange in exchanges:
            try:
                found = check(exchange, send(client, exchange, known), known)
                for name, pointer in exchange.get("capture", {}).items():
                    known[name] = at(found, pointer) if pointer.strip("/") in found else None
            except (AssertionError, KeyError, ValueError, httpx.HTTPError) as error:
                failures.append(f"{exchange['name']}: {error!r:.600}")
                assert not exchange.get("capture"), failures
    assert not failures, "\n".join(failures)


def test_there_are_recordings():
    assert sum(len(json.loads(path.read_text())) for path in FILES) >= 60
