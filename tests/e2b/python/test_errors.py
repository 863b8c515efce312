"""Each wrong thing ends as the exception that the SDK has for it."""

import os
import uuid

import pytest
from conftest import plain, routing
from e2b import CommandExitException, Sandbox, SandboxException, SandboxNotFoundException
from e2b.exceptions import (
    AuthenticationException,
    NotEnoughSpaceException,
    NotFoundException,
    RateLimitException,
    SandboxNotRunningException,
)
from e2b_code_interpreter import Sandbox as Interpreter

UNKNOWN_KEYS = ["e2b_" + "0" * 40, "e2b_short", "nonsense", "sbx_0123456789abcdef_" + "0" * 64]


@pytest.mark.parametrize("key", UNKNOWN_KEYS)
def test_a_wrong_key_is_an_authentication_error(sbx, key):
    for call in [
        lambda: Sandbox.create(api_key=key),
        lambda: Sandbox.connect(sbx.sandbox_id, api_key=key),
        lambda: Sandbox.get_info(sbx.sandbox_id, api_key=key),
        lambda: Sandbox.kill(sbx.sandbox_id, api_key=key),
        lambda: Sandbox.list(api_key=key).next_items(),
        lambda: Sandbox.set_timeout(sbx.sandbox_id, 10, api_key=key),
    ]:
        with pytest.raises(AuthenticationException):
            call()
    assert sbx.is_running()


def test_another_tenants_sandbox_is_not_found(sbx):
    """As one that does not exist: nothing tells the two apart."""
    key = os.environ["E2B_TEST_OTHER_KEY"]
    unknown = "i" + uuid.uuid4().hex[:20]
    said = []
    for sandbox in [sbx.sandbox_id, unknown]:
        words = []
        for call in [
            lambda: Sandbox.connect(sandbox, api_key=key),
            lambda: Sandbox.get_info(sandbox, api_key=key),
            lambda: Sandbox.set_timeout(sandbox, 10, api_key=key),
            lambda: Sandbox.pause(sandbox, api_key=key),
            lambda: Sandbox.get_metrics(sandbox, api_key=key),
        ]:
            with pytest.raises(SandboxNotFoundException) as raised:
                call()
            words.append(str(raised.value).replace(sandbox, "ID"))
        assert Sandbox.kill(sandbox, api_key=key) is False
        said.append(words)
    assert said[0] == said[1]
    assert sbx.sandbox_id not in [
        it.sandbox_id for it in Sandbox.list(api_key=key).next_items()
    ]
    assert sbx.is_running()


def test_ids_that_cannot_be_are_not_found():
    for sandbox in ["x", "i" * 300, "UPPER", "a-b", "..", "\u00e4", "a%2fb"]:
        with pytest.raises((SandboxNotFoundException, SandboxException)) as raised:
            Sandbox.get_info(sandbox)
        if not isinstance(raised.value, SandboxNotFoundException):
            assert raised.value.status_code == 400, (sandbox, raised.value)


def test_an_unknown_template_is_said():
    with pytest.raises(SandboxException) as raised:
        Sandbox.create("no-such-template")
    assert raised.value.status_code == 404
    assert "no-such-template" in str(raised.value)


@pytest.mark.parametrize("token", [None, "", "wrong", "envd\u00e4"])
def test_without_the_envd_token_nothing_is_done(sbx, token):
    calls = [
        ("POST", "/process.Process/List", {"json": {}}),
        ("POST", "/filesystem.Filesystem/ListDir", {"json": {"path": "."}}),
        ("POST", "/process.Process/Start", {"content": b"\0\0\0\0\2{}"}),
        ("GET", "/files?path=x", {}),
        ("POST", "/files?path=x", {"files": {"file": ("x", b"x")}}),
        ("GET", "/metrics", {}),
        ("GET", "/envs", {}),
    ]
    for method, path, more in calls:
        headers = routing(sbx, 49983)
        headers["X-Access-Token"] = token.encode() if token is not None else None
        headers = {name: value for name, value in headers.items() if value is not None}
        if path.endswith("/Start"):
            headers["Content-Type"] = "application/connect+json"
        answer = plain(method, path, headers, **more)
        assert answer.status_code == 401, (path, answer.text)
    headers = routing(sbx, 49983)
    del headers["X-Access-Token"]
    assert plain("GET", "/health", headers).status_code == 204


def test_the_sdk_has_an_exception_for_a_wrong_token(sbx):
    other = Sandbox.connect(sbx.sandbox_id)
    headers = other.connection_config._ConnectionConfig__extra_sandbox_headers
    headers["X-Access-Token"] = "wrong"
    broken = Sandbox(
        sandbox_id=sbx.sandbox_id,
        sandbox_domain=sbx.sandbox_domain,
        envd_version=sbx._envd_version,
        envd_access_token="wrong",
        traffic_access_token=sbx.traffic_access_token,
        connection_config=other.connection_config,
    )
    for call in [
        lambda: broken.commands.run("true"),
        lambda: broken.commands.list(),
        lambda: broken.files.read("x"),
        lambda: broken.files.write("x", "x"),
        lambda: broken.files.list("."),
    ]:
        with pytest.raises(AuthenticationException):
            call()


def test_the_token_of_one_sandbox_is_of_no_use_for_another(sbx, own):
    headers = routing(sbx, 49983)
    headers["X-Access-Token"] = own._envd_access_token
    answer = plain("POST", "/process.Process/List", headers, json={})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "path", ["/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"]
)
def test_what_is_the_orchestrators_is_refused(sbx, path):
    answer = plain("POST", path, routing(sbx, 49983), json={})
    assert answer.status_code in (401, 403, 404, 405), answer.text
    assert sbx.commands.run("echo on").stdout == "on\n"


@pytest.mark.parametrize(
    "path",
    [
        "/sandbox.v1.Code/Execute",
        "/sandbox.v1.Workspace/Read",
        "/ports/80",
        "/process.Process/../init",
        "/process.Process/%2e%2e/%2e%2e/init",
        "//init",
    ],
)
def test_no_more_than_envd_is_behind_its_port(sbx, path):
    answer = plain("POST", path, routing(sbx, 49983), json={})
    assert answer.status_code in (400, 401, 403, 404, 405, 501), (path, answer.text)


def test_a_sandbox_that_is_not_there_is_a_502(sbx):
    for sandbox in ["i" + uuid.uuid4().hex[:20], "x"]:
        headers = {**routing(sbx, 49983), "E2b-Sandbox-Id": sandbox}
        answer = plain("GET", "/health", headers)
        assert answer.status_code == 502, answer.text
        body = answer.json()
        assert body["message"] == "The sandbox was not found"
        assert (body["sandboxId"], body["code"]) == (sandbox, 502)


def test_an_exit_code_is_an_exception_of_both_kinds(sbx):
    with pytest.raises(SandboxException) as raised:
        sbx.commands.run("exit 1")
    assert isinstance(raised.value, CommandExitException)


@pytest.mark.skipif("E2B_TEST_SMALL_DISK_URL" not in os.environ, reason="no such service")
def test_a_full_disk_is_not_enough_space():
    url = os.environ["E2B_TEST_SMALL_DISK_URL"]
    key = os.environ["E2B_TEST_SMALL_DISK_KEY"]
    options = {"api_url": url, "sandbox_url": url, "api_key": key}
    with Sandbox.create(timeout=60, **options) as sandbox:
        for octets in (True, False):
            with pytest.raises(NotEnoughSpaceException):
                sandbox.files.write("big", b"x" * 12_000_000, use_octet_stream=octets)
        sandbox.files.write("small", "x")
        assert sandbox.files.read("small") == "x"


@pytest.mark.skipif("E2B_TEST_LIMITED_URL" not in os.environ, reason="no such service")
def test_too_many_calls_are_a_rate_limit():
    url, key = os.environ["E2B_TEST_LIMITED_URL"], os.environ["E2B_TEST_LIMITED_KEY"]
    options = {"api_url": url, "sandbox_url": url, "api_key": key, "retries": 0}
    with pytest.raises(RateLimitException):
        for _ in range(50):
            Sandbox.list(**options).next_items()


@pytest.mark.skipif("E2B_TEST_LIMITED_URL" not in os.environ, reason="no such service")
def test_too_many_sandboxes_are_a_rate_limit():
    """The limited service lets a tenant have two."""
    url, key = os.environ["E2B_TEST_LIMITED_URL"], os.environ["E2B_TEST_CROWDED_KEY"]
    options = {"api_url": url, "sandbox_url": url, "api_key": key, "retries": 0}
    made = []
    try:
        with pytest.raises(RateLimitException):
            for _ in range(4):
                made.append(Sandbox.create(timeout=60, **options))
        assert len(made) == 2
    finally:
        for sandbox in made:
            sandbox.kill()


def test_an_unknown_context_is_not_found(code):
    context = code.create_code_context()
    code.remove_code_context(context)
    for call in [
        lambda: code.run_code("1", context=context),
        lambda: code.remove_code_context(context),
        lambda: code.restart_code_context(context),
    ]:
        with pytest.raises(NotFoundException):
            call()


def test_code_in_a_sandbox_that_is_gone():
    sandbox = Interpreter.create(timeout=60)
    sandbox.kill()
    from e2b import TimeoutException

    with pytest.raises(TimeoutException):
        sandbox.run_code("1")
    with pytest.raises(SandboxNotRunningException):
        sandbox.commands.run("true")


def test_code_needs_its_token(code):
    for token in [None, "wrong"]:
        headers = routing(code, 49999)
        headers.pop("E2B-Traffic-Access-Token", None)
        if token:
            headers["X-Access-Token"] = token
        answer = plain("POST", "/execute", headers, json={"code": "1"})
        assert answer.status_code in (401, 403), answer.text
        answer = plain("GET", "/contexts", headers)
        assert answer.status_code in (401, 403), answer.text


def test_bodies_that_are_no_requests_are_refused(code):
    headers = {
        **routing(code, 49999),
        "X-Access-Token": code._envd_access_token,
        "Content-Type": "application/json",
    }
    for body in [b"", b"{", b"[]", b"{}", b'{"code": 1}', b'{"code": "1", "env_vars": [1]}']:
        answer = plain("POST", "/execute", headers, content=body)
        assert 400 <= answer.status_code < 500, (body, answer.text)
    both = b'{"code": "1", "context_id": "x", "language": "python"}'
    assert plain("POST", "/execute", headers, content=both).status_code == 400
    api = {"X-API-Key": os.environ["E2B_API_KEY"], "Content-Type": "application/json"}
    for body in [b"", b"{", b"[]", b"{}", b'{"templateID": 1}', b'{"templateID": "base", "timeout": "x"}']:
        answer = plain("POST", "/v2/sandboxes", api, content=body)
        assert answer.status_code == 400, (body, answer.text)
        assert answer.json()["code"] == 400 and answer.json()["message"]
