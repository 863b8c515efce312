"""The service is known by its domain alone. Names of hosts are in a file that only these
cases and their SDKs see as /etc/hosts."""

import os
import ssl

import httpx
import pytest
from e2b_code_interpreter import Sandbox


@pytest.fixture
def anyio_backend():
    return "asyncio"


def named(sandbox, *ports):
    """Makes the names of a sandbox known."""
    with open(os.environ["E2B_TEST_HOSTS"], "a") as hosts:
        for port in (49983, 49999, *ports):
            hosts.write(f"127.0.0.1 {sandbox.get_host(port).split(':')[0]}\n")
    return sandbox


@pytest.fixture(scope="module")
def sbx():
    sandbox = named(Sandbox.create(timeout=300), 3000)
    yield sandbox
    sandbox.kill()


def trusted():
    return ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])


@pytest.fixture
def web():
    with httpx.Client(verify=trusted(), trust_env=False, timeout=30, http2=True) as client:
        yield client
