"""The service is known by its domain alone, which a name server of these cases resolves."""

import os
import ssl

import httpx
import pytest
from e2b_code_interpreter import Sandbox


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def sbx():
    sandbox = Sandbox.create(timeout=300)
    yield sandbox
    sandbox.kill()


def trusted():
    return ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])


@pytest.fixture
def web():
    with httpx.Client(verify=trusted(), trust_env=False, timeout=30, http2=True) as client:
        yield client
