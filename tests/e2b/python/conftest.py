"""What the cases share: sandboxes, and where the service is.

The SDKs learn that from the environment alone (E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY); what
else a case needs to know is in E2B_TEST_*.
"""

import base64
import os
import time

import httpx
import pytest
from e2b import AsyncSandbox, Sandbox
from e2b_code_interpreter import Sandbox as Interpreter

ORIGIN = os.environ["E2B_SANDBOX_URL"] if "E2B_SANDBOX_URL" in os.environ else ""


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def sbx():
    """A sandbox that the cases of a file share."""
    sandbox = Sandbox.create(timeout=300)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def own():
    """A sandbox that its case may break."""
    sandbox = Sandbox.create(timeout=300)
    yield sandbox
    sandbox.kill()


@pytest.fixture(scope="module")
def code():
    sandbox = Interpreter.create(timeout=300)
    yield sandbox
    sandbox.kill()


@pytest.fixture
async def async_sbx(anyio_backend):
    sandbox = await AsyncSandbox.create(timeout=300)
    yield sandbox
    await sandbox.kill()


def until(what, condition, seconds=20):
    """Waits until a condition holds, and returns what it said."""
    deadline = time.monotonic() + seconds
    while True:
        said = condition()
        if said:
            return said
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


def routing(sandbox, port, **more):
    """The headers that choose a sandbox and a port of it, and may use it."""
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(port)}
    if port == 49983:
        headers["X-Access-Token"] = sandbox._envd_access_token
    elif sandbox.traffic_access_token:
        headers["E2B-Traffic-Access-Token"] = sandbox.traffic_access_token
    headers.update(more)
    return {name: value for name, value in headers.items() if value is not None}


def plain(method, path, headers, **more):
    """A request without an SDK."""
    with httpx.Client(timeout=30, trust_env=False) as client:
        return client.request(method, ORIGIN + path, headers=headers, **more)


def decoded(text):
    return base64.b64decode(text, validate=True)
