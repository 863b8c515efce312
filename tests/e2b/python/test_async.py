"""The asynchronous SDKs: what differs from the synchronous ones, and one of each."""

import asyncio
import time

import pytest
from e2b import (
    AsyncSandbox,
    CommandExitException,
    FileNotFoundException,
    FileType,
    NotFoundException,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)
from e2b.exceptions import AuthenticationException, SandboxNotRunningException
from e2b.sandbox.commands.command_handle import PtySize
from e2b.sandbox.filesystem.watch_handle import FilesystemEventType
from e2b_code_interpreter import AsyncSandbox as AsyncInterpreter

pytestmark = pytest.mark.anyio


async def test_commands(async_sbx):
    out = []
    result = await async_sbx.commands.run("echo out; echo err >&2", on_stdout=out.append)
    assert (result.stdout, result.stderr, "".join(out)) == ("out\n", "err\n", "out\n")
    with pytest.raises(CommandExitException):
        await async_sbx.commands.run("exit 2")
    with pytest.raises(TimeoutException):
        await async_sbx.commands.run("sleep 60", timeout=1)


async def test_a_background_command(async_sbx):
    handle = await async_sbx.commands.run("cat", background=True, stdin=True)
    await async_sbx.commands.send_stdin(handle.pid, "in\n")
    await handle.close_stdin()
    assert (await handle.wait()).stdout == "in\n"
    handle = await async_sbx.commands.run("sleep 60", background=True)
    assert handle.pid in [it.pid for it in await async_sbx.commands.list()]
    assert await handle.kill() is True
    with pytest.raises(CommandExitException):
        await handle.wait()
    with pytest.raises(NotFoundException):
        await async_sbx.commands.connect(999_999)


async def test_a_cancelled_task_lets_go(async_sbx):
    task = asyncio.create_task(async_sbx.commands.run("sleep 2; echo on > after-cancel"))
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await async_sbx.commands.run("echo on")).stdout == "on\n"


async def test_commands_at_once(async_sbx):
    started = time.monotonic()
    runs = [async_sbx.commands.run(f"sleep 0.3; echo {n}") for n in range(20)]
    said = [result.stdout for result in await asyncio.gather(*runs)]
    assert said == [f"{n}\n" for n in range(20)]
    assert time.monotonic() - started < 5


async def test_a_terminal(async_sbx):
    seen = bytearray()
    handle = await async_sbx.pty.create(PtySize(rows=20, cols=70), on_data=seen.extend)
    await async_sbx.pty.send_stdin(handle.pid, b"stty size; exit\n")
    await handle.wait()
    assert b"20 70" in seen


async def test_files(async_sbx):
    files = async_sbx.files
    await files.write("f/a", "\u00e4")
    assert await files.read("f/a") == "\u00e4"
    assert bytes(await files.read("f/a", format="bytes")) == "\u00e4".encode()
    parts = [part async for part in await files.read("f/a", format="stream")]
    assert b"".join(parts) == "\u00e4".encode()
    written = await files.write_files([{"path": f"f/{n}", "data": b"x"} for n in range(5)])
    assert len(written) == 5
    assert len(await files.list("f")) == 6
    assert (await files.rename("f/a", "f/b")).name == "b"
    assert (await files.get_info("f/b")).type == FileType.FILE
    assert await files.make_dir("g") is True
    assert await files.make_dir("g") is False
    await files.remove("f")
    assert await files.exists("f") is False
    with pytest.raises(FileNotFoundException):
        await files.read("f/a")


async def test_a_folder_is_watched_by_a_stream(async_sbx):
    events, ends = [], []
    await async_sbx.files.make_dir("watched")
    handle = await async_sbx.files.watch_dir(
        "watched", on_event=events.append, on_exit=ends.append, recursive=True
    )
    await async_sbx.files.write("watched/new", "x")
    await async_sbx.files.remove("watched/new")
    wanted = {("new", kind) for kind in (
        FilesystemEventType.CREATE, FilesystemEventType.WRITE, FilesystemEventType.REMOVE)}
    for _ in range(200):
        if wanted <= {(it.name, it.type) for it in events}:
            break
        await asyncio.sleep(0.05)
    assert wanted <= {(it.name, it.type) for it in events}
    await handle.stop()
    with pytest.raises(FileNotFoundException):
        await async_sbx.files.watch_dir("not-there", on_event=events.append)


async def test_life(async_sbx):
    info = await async_sbx.get_info()
    assert info.state == SandboxState.RUNNING
    await async_sbx.set_timeout(200)
    assert await async_sbx.get_metrics()
    assert await async_sbx.pause() is True
    assert await async_sbx.pause() is False
    pages = AsyncSandbox.list(query=SandboxQuery(state=[SandboxState.PAUSED]))
    found = []
    while pages.has_next:
        found += [it.sandbox_id for it in await pages.next_items()]
    assert async_sbx.sandbox_id in found
    again = await AsyncSandbox.connect(async_sbx.sandbox_id, timeout=100)
    assert (await again.commands.run("echo on")).stdout == "on\n"


async def test_the_end():
    sandbox = await AsyncSandbox.create(timeout=100, metadata={"a": "b"}, envs={"E": "v"})
    assert (await sandbox.commands.run("echo $E")).stdout == "v\n"
    waits = asyncio.create_task(sandbox.commands.run("sleep 60"))
    await asyncio.sleep(0.3)
    assert await sandbox.kill() is True
    with pytest.raises(SandboxNotRunningException):
        await waits
    assert await sandbox.kill() is False
    assert await sandbox.is_running() is False
    with pytest.raises(SandboxNotFoundException):
        await sandbox.get_info()
    with pytest.raises(SandboxNotRunningException):
        await sandbox.files.read("x")
    with pytest.raises(AuthenticationException):
        await AsyncSandbox.create(api_key="e2b_" + "1" * 40)


async def test_code():
    async with await AsyncInterpreter.create(timeout=100) as sandbox:
        out = []
        execution = await sandbox.run_code("print('hi')\nx = 41\nx + 1", on_stdout=out.append)
        assert (execution.text, [it.line for it in out]) == ("42", ["hi\n"])
        context = await sandbox.create_code_context()
        assert (await sandbox.run_code("x", context=context)).error.name == "NameError"
        assert context.id in [it.id for it in await sandbox.list_code_contexts()]
        await sandbox.restart_code_context(context)
        await sandbox.remove_code_context(context)
        with pytest.raises(NotFoundException):
            await sandbox.run_code("1", context=context)
        with pytest.raises(TimeoutException):
            await sandbox.run_code("import time; time.sleep(60)", timeout=1)
        assert (await sandbox.run_code("x")).text == "41"
