"""Sandboxes from their making to their end, by the synchronous SDK."""

import datetime
import threading
import time
import uuid

import pytest
from conftest import until
from e2b import (
    CommandExitException,
    Sandbox,
    SandboxException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)
from e2b.exceptions import InvalidArgumentException, SandboxNotRunningException


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def state(sandbox):
    try:
        return Sandbox.get_info(sandbox.sandbox_id).state
    except SandboxNotFoundException:
        return None


def test_a_sandbox_says_what_it_is():
    metadata = {"team": "search", "sp ace": "\u00e4=&%+\u2028"}
    with Sandbox.create(timeout=200, metadata=metadata) as sandbox:
        assert sandbox.sandbox_id.isalnum() and sandbox.sandbox_id.islower()
        info = sandbox.get_info()
        assert (info.sandbox_id, info.metadata) == (sandbox.sandbox_id, metadata)
        assert info.state == SandboxState.RUNNING
        assert info.template_id == "base"
        assert abs((now() - info.started_at).total_seconds()) < 30
        left = (info.end_at - now()).total_seconds()
        assert 150 < left <= 200
        assert info.cpu_count >= 1 and info.memory_mb >= 64
        assert info.envd_version
        assert info.lifecycle == {"on_timeout": "kill", "auto_resume": False}
        assert not info.allow_internet_access


def test_without_a_timeout_it_has_five_minutes():
    with Sandbox.create() as sandbox:
        left = (sandbox.get_info().end_at - now()).total_seconds()
        assert 250 < left <= 300


def test_a_killed_sandbox_is_gone():
    sandbox = Sandbox.create(timeout=100)
    assert sandbox.is_running() is True
    assert sandbox.kill() is True
    assert sandbox.is_running() is False
    assert sandbox.kill() is False
    for call in [
        sandbox.get_info,
        sandbox.get_metrics,
        sandbox.pause,
        lambda: sandbox.set_timeout(10),
        lambda: Sandbox.connect(sandbox.sandbox_id),
    ]:
        with pytest.raises(SandboxNotFoundException):
            call()
    for call in [
        lambda: sandbox.commands.run("true"),
        lambda: sandbox.commands.list(),
        lambda: sandbox.files.read("x"),
        lambda: sandbox.files.write("x", "x"),
        lambda: sandbox.files.list("."),
    ]:
        with pytest.raises(SandboxNotRunningException):
            call()
    # Its old name, which handlers catch.
    assert issubclass(SandboxNotRunningException, TimeoutException)


def test_killing_by_id():
    sandbox = Sandbox.create(timeout=100)
    assert Sandbox.kill(sandbox.sandbox_id) is True
    assert Sandbox.kill(sandbox.sandbox_id) is False


def test_a_kill_ends_what_runs():
    sandbox = Sandbox.create(timeout=100)
    handle = sandbox.commands.run("echo on; sleep 65", background=True)
    raised = []

    def wait():
        try:
            handle.wait()
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    sandbox.kill()
    thread.join(15)
    assert not thread.is_alive()
    assert isinstance(raised[0], SandboxNotRunningException), repr(raised)


def test_its_time_ends_it():
    sandbox = Sandbox.create(timeout=2)
    assert sandbox.commands.run("echo on").stdout == "on\n"
    until("its time is up", lambda: not sandbox.is_running(), 10)
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()
    with pytest.raises(SandboxNotRunningException):
        sandbox.commands.run("true")


def test_use_does_not_prolong_it():
    sandbox = Sandbox.create(timeout=3)
    started = time.monotonic()
    with pytest.raises((SandboxNotRunningException, CommandExitException)):
        while True:
            sandbox.commands.run("sleep 0.1")
            assert time.monotonic() - started < 15
    assert time.monotonic() - started > 1.5


def test_its_time_is_set_anew():
    with Sandbox.create(timeout=3) as sandbox:
        sandbox.set_timeout(100)
        left = (sandbox.get_info().end_at - now()).total_seconds()
        assert 80 < left <= 100
        time.sleep(3.5)
        assert sandbox.is_running()
        sandbox.set_timeout(1)
        until("its time is up", lambda: not sandbox.is_running(), 10)


@pytest.mark.parametrize("timeout", [-1, 10**9])
def test_a_time_that_cannot_be_is_refused(timeout):
    with pytest.raises(SandboxException) as raised:
        Sandbox.create(timeout=timeout)
    assert raised.value.status_code == 400


def test_connecting_prolongs_and_never_shortens():
    with Sandbox.create(timeout=50, metadata={"connected": "yes"}) as sandbox:
        sandbox.files.write("kept", "here")
        other = Sandbox.connect(sandbox.sandbox_id, timeout=200)
        assert other.sandbox_id == sandbox.sandbox_id
        assert other.files.read("kept") == "here"
        left = (sandbox.get_info().end_at - now()).total_seconds()
        assert 150 < left <= 200
        Sandbox.connect(sandbox.sandbox_id, timeout=10)
        left = (sandbox.get_info().end_at - now()).total_seconds()
        assert 100 < left
        assert sandbox.connect().commands.run("cat kept").stdout == "here"


def ids(**query):
    """Of all pages, in order; and how many pages there were."""
    limit, order = query.pop("limit", None), query.pop("order", None)
    pages = Sandbox.list(query=SandboxQuery(**query), limit=limit, order=order)
    found, count = [], 0
    while pages.has_next:
        found += [it.sandbox_id for it in pages.next_items()]
        count += 1
        assert count < 50
    return found, count


def test_sandboxes_are_listed_in_pages_and_by_metadata():
    mark = uuid.uuid4().hex
    hard = "\u00e4 =&%+/"
    made = []
    try:
        for n in range(5):
            metadata = {"mark": mark, "n": str(n), hard: hard}
            made.append(Sandbox.create(timeout=100, metadata=metadata))
            time.sleep(0.02)
        wanted = [it.sandbox_id for it in made]
        found, pages = ids(metadata={"mark": mark}, order="asc")
        assert (found, pages) == (wanted, 1)
        found, pages = ids(metadata={"mark": mark}, order="desc", limit=2)
        assert (found, pages) == (wanted[::-1], 3)
        assert ids(metadata={"mark": mark, "n": "3"})[0] == [wanted[3]]
        assert sorted(ids(metadata={hard: hard, "mark": mark})[0]) == sorted(wanted)
        assert ids(metadata={"mark": "other"})[0] == []
        third = made[2].get_info().started_at
        found, _ = ids(metadata={"mark": mark}, started_after=third, order="asc")
        assert found == wanted[2:]
        found, _ = ids(metadata={"mark": mark}, started_after=now() + datetime.timedelta(hours=1))
        assert found == []
        assert len(ids(metadata={"mark": mark}, template="base")[0]) == 5
        assert ids(metadata={"mark": mark}, template="code-interpreter-v1")[0] == []
        made[1].pause()
        assert ids(metadata={"mark": mark}, state=[SandboxState.PAUSED])[0] == [wanted[1]]
        found, _ = ids(metadata={"mark": mark}, state=[SandboxState.RUNNING], order="asc")
        assert found == [it for it in wanted if it != wanted[1]]
        found, _ = ids(metadata={"mark": mark}, state=list(SandboxState), order="asc")
        assert found == wanted
        made[0].kill()
        found, _ = ids(metadata={"mark": mark}, order="asc")
        assert found == wanted[1:]
        (info,) = Sandbox.list(query=SandboxQuery(metadata={"mark": mark, "n": "4"})).next_items()
        assert info.metadata == {"mark": mark, "n": "4", hard: hard}
        assert (info.state, info.template_id) == (SandboxState.RUNNING, "base")
    finally:
        for sandbox in made:
            sandbox.kill()


def test_a_page_token_that_is_none_is_refused():
    pages = Sandbox.list(next_token="no such token")
    with pytest.raises(SandboxException) as raised:
        pages.next_items()
    assert raised.value.status_code == 400


def test_metrics_say_what_is_used(sbx):
    sbx.commands.run("head -c 1000000 /dev/urandom > used")
    metrics = until("there are metrics", sbx.get_metrics)
    last = metrics[-1]
    assert last.cpu_count >= 1
    assert last.mem_total > last.mem_used > 0
    assert last.disk_total >= last.disk_used > 0
    assert last.cpu_used_pct >= 0
    assert abs((now() - last.timestamp).total_seconds()) < 60
    early = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    assert sbx.get_metrics(start=early, end=early + datetime.timedelta(days=1)) == []


def test_a_pause_keeps_files_and_processes(own):
    own.files.write("kept", "here")
    ticks = "i=0; while :; do i=$((i+1)); echo $i > ticks; sleep 0.05; done"
    handle = own.commands.run(ticks, background=True, timeout=0)
    until("it ticks", lambda: own.files.exists("ticks"))
    handle.disconnect()
    assert own.pause() is True
    assert own.pause() is False
    assert own.get_info().state == SandboxState.PAUSED
    assert own.is_running() is False
    with pytest.raises(SandboxNotRunningException):
        own.commands.run("true")
    again = Sandbox.connect(own.sandbox_id, timeout=200)
    assert again.get_info().state == SandboxState.RUNNING
    assert again.files.read("kept") == "here"
    assert handle.pid in [it.pid for it in again.commands.list()]
    before = int(again.files.read("ticks").strip() or 0)
    until("it ticks on", lambda: int(again.files.read("ticks").strip() or 0) > before)
    # The first client's object works again too.
    assert own.commands.run("cat kept").stdout == "here"


def test_a_paused_sandbox_stands_still(own):
    line = "while :; do date +%s%N > ticks; sleep 0.02; done"
    own.commands.run(line, background=True, timeout=0).disconnect()
    until("it ticks", lambda: own.files.exists("ticks"))
    own.pause()
    paused = time.time()
    time.sleep(1)
    resumed = time.time()
    own.connect(timeout=100)
    # Written either before the pause or after the resume.
    at = int(own.commands.run("cat ticks").stdout or 0) / 1e9
    assert not paused + 0.3 < at < resumed - 0.3


def test_a_paused_sandbox_is_killed():
    sandbox = Sandbox.create(timeout=100)
    sandbox.pause()
    assert sandbox.kill() is True
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()


def test_a_pause_without_memory_keeps_files_alone(own):
    own.files.write("kept", "here")
    handle = own.commands.run("sleep 66", background=True, timeout=0)
    handle.disconnect()
    assert own.pause(mode="filesystem") is True
    again = Sandbox.connect(own.sandbox_id, timeout=100)
    assert again.files.read("kept") == "here"
    assert [it for it in again.commands.list() if it.args[-1:] == ["sleep 66"]] == []


def test_its_time_pauses_it_when_that_was_asked_for():
    sandbox = Sandbox.create(timeout=2, lifecycle={"on_timeout": "pause"})
    try:
        assert sandbox.get_info().lifecycle["on_timeout"] == "pause"
        sandbox.files.write("kept", "here")
        until("it is paused", lambda: state(sandbox) == SandboxState.PAUSED, 15)
        with pytest.raises(SandboxNotRunningException):
            sandbox.commands.run("true")
        again = Sandbox.connect(sandbox.sandbox_id, timeout=100)
        assert again.commands.run("cat kept").stdout == "here"
    finally:
        sandbox.kill()


def test_use_resumes_it_when_that_was_asked_for():
    lifecycle = {"on_timeout": "pause", "auto_resume": True}
    sandbox = Sandbox.create(timeout=2, lifecycle=lifecycle)
    try:
        assert sandbox.get_info().lifecycle == lifecycle
        sandbox.files.write("kept", "here")
        until("it is paused", lambda: state(sandbox) == SandboxState.PAUSED, 15)
        assert sandbox.commands.run("cat kept").stdout == "here"
        assert state(sandbox) == SandboxState.RUNNING
    finally:
        sandbox.kill()


def test_what_cannot_be_had_is_refused():
    """Each is said, none is passed over in silence."""
    for asked in [
        {"network": {"deny_out": ["8.8.8.8"], "allow_out": ["1.1.1.1"]}},
        {"volume_mounts": {"/data": "some-volume"}},
        {"iam": {"tokens": {"aws": {"audience": "a", "token_type": "JWT-SVID"}}}},
    ]:
        with pytest.raises(SandboxException) as raised:
            Sandbox.create(timeout=20, **asked)
        assert raised.value.status_code in (400, 501), asked
    with Sandbox.create(timeout=20) as sandbox:
        with pytest.raises(SandboxException) as raised:
            sandbox.fork()
        assert raised.value.status_code in (400, 501)


def test_the_same_idempotency_key_makes_one_sandbox():
    key = f"test-{uuid.uuid4()}"
    first = Sandbox.create(timeout=60, idempotency_key=key, metadata={"once": key})
    try:
        second = Sandbox.create(timeout=60, idempotency_key=key, metadata={"once": key})
        assert second.sandbox_id == first.sandbox_id
        assert ids(metadata={"once": key})[0] == [first.sandbox_id]
    finally:
        first.kill()
    with pytest.raises(InvalidArgumentException):
        Sandbox.create(idempotency_key="NOT VALID")
