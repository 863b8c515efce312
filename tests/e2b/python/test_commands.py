"""Commands of the synchronous SDK."""

import threading
import time

import pytest
from conftest import until
from e2b import CommandExitException, NotFoundException, TimeoutException
from e2b.exceptions import AuthenticationException, InvalidArgumentException


def test_a_command_runs_in_the_foreground(sbx):
    result = sbx.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code, result.error) == (
        "out\n",
        "err\n",
        0,
        None,
    )


def test_an_exit_code_raises_with_all_that_was_printed(sbx):
    with pytest.raises(CommandExitException) as raised:
        sbx.commands.run("echo out; echo err >&2; exit 7")
    error = raised.value
    assert (error.exit_code, error.stdout, error.stderr) == (7, "out\n", "err\n")
    assert error.error == "exit status 7"


def test_a_command_that_is_not_there_exits_127(sbx):
    with pytest.raises(CommandExitException) as raised:
        sbx.commands.run("no-such-command-here")
    assert raised.value.exit_code == 127


def test_a_shell_line_is_a_whole_program(sbx):
    script = "for i in 1 2 3; do\n  printf '%s;' \"$i\"\ndone | tr ';' '\\n' | sort -r"
    assert sbx.commands.run(script).stdout == "3\n2\n1\n"


def test_variables_are_given_to_the_command_alone(sbx):
    line = "echo \"$GIVEN|$QUOTED\""
    said = sbx.commands.run(line, envs={"GIVEN": "a b", "QUOTED": "'\"$x\n"})
    assert said.stdout == "a b|'\"$x\n\n"
    assert sbx.commands.run(line).stdout == "|\n"


def test_cwd_is_where_it_runs(sbx):
    sbx.files.make_dir("sub dir/deep")
    home = sbx.commands.run("pwd").stdout.strip()
    assert sbx.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"
    said = sbx.commands.run("pwd", cwd=f"{home}/sub dir/deep").stdout
    assert said == f"{home}/sub dir/deep\n"


def test_a_cwd_that_is_not_there_is_an_invalid_argument(sbx):
    with pytest.raises(InvalidArgumentException):
        sbx.commands.run("true", cwd="/no/such/place")


def test_the_default_user_may_be_named(sbx):
    number = sbx.commands.run("id -u").stdout
    assert sbx.commands.run("id -u", user="user").stdout == number
    # Not every image has a name for it.
    name = sbx.commands.run("name=$(id -un 2>/dev/null) || name=user; echo $name").stdout.strip()
    assert sbx.commands.run("id -u", user=name).stdout == number


@pytest.mark.parametrize("user", ["root", "nobody-of-that-name"])
def test_other_users_are_refused(sbx, user):
    with pytest.raises(AuthenticationException):
        sbx.commands.run("true", user=user)


def test_output_comes_while_the_command_runs(sbx):
    seen, times = [], []

    def on_stdout(text):
        seen.append(text)
        times.append(time.monotonic())

    line = "for i in 1 2 3; do echo $i; sleep 0.3; done"
    result = sbx.commands.run(line, on_stdout=on_stdout)
    assert "".join(seen) == result.stdout == "1\n2\n3\n"
    assert times[-1] - times[0] > 0.4


def test_both_streams_have_callbacks(sbx):
    out, err = [], []
    sbx.commands.run("echo o; echo e >&2", on_stdout=out.append, on_stderr=err.append)
    assert ("".join(out), "".join(err)) == ("o\n", "e\n")


def test_output_need_not_be_retained(sbx):
    out = []
    result = sbx.commands.run("echo o", on_stdout=out.append, retain_output=False)
    assert (result.stdout, "".join(out)) == (None, "o\n")


def test_a_background_command_is_waited_for(sbx):
    handle = sbx.commands.run("sleep 0.2; echo done", background=True)
    assert handle.pid > 0
    assert handle.wait().stdout == "done\n"


def test_a_background_command_is_iterated(sbx):
    handle = sbx.commands.run("echo a; sleep 0.1; echo b >&2", background=True)
    parts = list(handle)
    assert "".join(out or "" for out, _, _ in parts) == "a\n"
    assert "".join(err or "" for _, err, _ in parts) == "b\n"


def test_waiting_raises_for_an_exit_code(sbx):
    handle = sbx.commands.run("exit 3", background=True)
    with pytest.raises(CommandExitException) as raised:
        handle.wait()
    assert raised.value.exit_code == 3


def test_stdin_is_sent_and_closed(sbx):
    handle = sbx.commands.run("cat; echo end", background=True, stdin=True)
    sbx.commands.send_stdin(handle.pid, "first\n")
    handle.send_stdin(b"\xc3\xa4 second\n")
    handle.close_stdin()
    assert handle.wait().stdout == "first\n\u00e4 second\nend\n"


def test_stdin_is_streamed(sbx):
    handle = sbx.commands.run("wc -c", background=True, stdin=True)
    sbx.commands.stream_input(handle.pid, (b"x" * 50_000 for _ in range(20)))
    handle.close_stdin()
    assert handle.wait().stdout.strip() == "1000000"


def test_without_stdin_a_command_reads_nothing(sbx):
    assert sbx.commands.run("cat; echo end", timeout=10).stdout == "end\n"


def test_stdin_of_a_command_that_is_not_there(sbx):
    with pytest.raises(NotFoundException):
        sbx.commands.send_stdin(999_999, "x")
    with pytest.raises(NotFoundException):
        sbx.commands.stream_input(999_999, ["x"])
    with pytest.raises(NotFoundException):
        sbx.commands.close_stdin(999_999)


def test_a_killed_command_ends_with_its_signal(sbx):
    handle = sbx.commands.run("sleep 60", background=True)
    assert handle.kill() is True
    with pytest.raises(CommandExitException) as raised:
        handle.wait()
    assert raised.value.exit_code != 0
    assert "killed" in raised.value.error


def test_kill_says_whether_there_was_something(sbx):
    handle = sbx.commands.run("sleep 60", background=True)
    assert sbx.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException):
        handle.wait()
    until("it is gone", lambda: sbx.commands.kill(handle.pid) is False)
    assert sbx.commands.kill(999_999) is False


def test_a_timeout_ends_the_command(sbx):
    started = time.monotonic()
    with pytest.raises(TimeoutException):
        sbx.commands.run("echo $$ > timed-out.pid; exec sleep 61", timeout=1)
    assert time.monotonic() - started < 8
    gone = "kill -0 $(cat timed-out.pid) 2>/dev/null && echo there || echo gone"
    until("it is killed", lambda: sbx.commands.run(gone).stdout == "gone\n")


def test_a_timeout_of_zero_is_none(sbx):
    assert sbx.commands.run("sleep 0.1; echo on", timeout=0).stdout == "on\n"


def test_running_commands_are_listed(sbx):
    handle = sbx.commands.run(
        "sleep 62", background=True, envs={"LISTED": "yes"}, cwd="/tmp"
    )
    (info,) = [it for it in sbx.commands.list() if it.pid == handle.pid]
    assert (info.cmd, info.args) == ("/bin/bash", ["-l", "-c", "sleep 62"])
    assert (info.envs.get("LISTED"), info.cwd) == ("yes", "/tmp")
    handle.kill()
    until(
        "it is not listed",
        lambda: handle.pid not in [it.pid for it in sbx.commands.list()],
    )


def test_a_running_command_is_connected_to(sbx):
    line = "read line; echo got $line"
    first = sbx.commands.run(line, background=True, stdin=True)
    first.disconnect()
    second = sbx.commands.connect(first.pid)
    assert second.pid == first.pid
    sbx.commands.send_stdin(first.pid, "it\n")
    assert second.wait().stdout == "got it\n"


def test_connecting_to_nothing_is_not_found(sbx):
    with pytest.raises(NotFoundException):
        sbx.commands.connect(999_999)


def test_a_client_that_leaves_kills_nothing(sbx):
    line = "sleep 0.5; echo on > left.txt"
    sbx.commands.run(line, background=True).disconnect()
    until("it went on", lambda: sbx.files.exists("left.txt"))


def test_what_is_left_in_the_background_holds_nobody_up(sbx):
    started = time.monotonic()
    assert sbx.commands.run("sleep 63 & echo on").stdout == "on\n"
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "text", ["\u00e4\u6f22\U0001f600", "a\u2028b\u2029c\u0085d", "tab\tbell\x07", "\ufeffbom"]
)
def test_text_of_every_kind_passes(sbx, text):
    assert sbx.commands.run("printf %s \"$T\"", envs={"T": text}).stdout == text
    assert sbx.commands.run(f"printf %s '{text}'").stdout == text


def test_characters_cut_between_two_writes_are_whole(sbx):
    line = "printf '\\xf0\\x9f'; sleep 0.2; printf '\\x98\\x80'"
    assert sbx.commands.run(line).stdout == "\U0001f600"


def test_bytes_that_are_no_text_are_replaced(sbx):
    assert sbx.commands.run("printf 'a\\xffb'").stdout == "a\ufffdb"


def test_big_output_comes_whole(sbx):
    result = sbx.commands.run("head -c 20000000 /dev/zero | tr '\\0' x", timeout=60)
    assert len(result.stdout) == 20_000_000
    assert set(result.stdout) == {"x"}


def test_a_long_line_is_run(sbx):
    text = "x" * 100_000
    assert len(sbx.commands.run(f"printf %s {text}").stdout) == 100_000


def test_twenty_commands_run_at_once(sbx):
    said = {}

    def run(n):
        said[n] = sbx.commands.run(f"sleep 0.3; echo {n}").stdout

    threads = [threading.Thread(target=run, args=(n,)) for n in range(20)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {n: f"{n}\n" for n in range(20)}
    assert time.monotonic() - started < 5


def test_variables_of_the_sandbox_are_in_every_command():
    from e2b import Sandbox

    with Sandbox.create(envs={"FROM_CREATE": "kept", "BOTH": "create"}) as sandbox:
        line = "echo $FROM_CREATE $BOTH"
        assert sandbox.commands.run(line).stdout == "kept create\n"
        said = sandbox.commands.run(line, envs={"BOTH": "run"})
        assert said.stdout == "kept run\n"
