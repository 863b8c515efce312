"""Terminals of the synchronous SDK."""

import threading

from conftest import until
from e2b.sandbox.commands.command_handle import PtySize


class Screen:
    """Reads a terminal to its end."""

    def __init__(self, handle):
        self.handle, self.bytes, self.result = handle, b"", None
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            self.result = self.handle.wait(on_pty=self.add)
        except Exception as error:
            self.result = error

    def add(self, data):
        self.bytes += data

    def shows(self, text):
        until(f"the terminal shows {text!r}", lambda: text in self.bytes)


def test_a_terminal_is_one(sbx):
    handle = sbx.pty.create(PtySize(rows=30, cols=100), envs={"GIVEN": "yes"}, cwd="/tmp")
    screen = Screen(handle)
    sbx.pty.send_stdin(handle.pid, b"tty; stty size; echo $GIVEN-$TERM; pwd\n")
    for text in (b"/dev/pts/", b"30 100", b"yes-xterm-256color", b"/tmp"):
        screen.shows(text)
    sbx.pty.resize(handle.pid, PtySize(rows=11, cols=222))
    sbx.pty.send_stdin(handle.pid, b"stty size\n")
    screen.shows(b"11 222")
    sbx.pty.send_stdin(handle.pid, b"exit 0\n")
    screen.thread.join(10)
    assert screen.result.exit_code == 0


def test_control_c_interrupts(sbx):
    handle = sbx.pty.create(PtySize(rows=24, cols=80))
    screen = Screen(handle)
    sbx.pty.send_stdin(handle.pid, b"echo go; sleep 64\n")
    screen.shows(b"go\r\n")
    sbx.pty.send_stdin(handle.pid, b"\x03")
    sbx.pty.send_stdin(handle.pid, b"echo still-$((40 + 2))\n")
    screen.shows(b"still-42")
    assert sbx.pty.kill(handle.pid) is True
    screen.thread.join(10)
    assert not screen.thread.is_alive()


def test_a_terminal_is_connected_to(sbx):
    first = sbx.pty.create(PtySize(rows=24, cols=80))
    first.disconnect()
    second = sbx.pty.connect(first.pid)
    screen = Screen(second)
    sbx.pty.stream_input(first.pid, [b"echo con", b"nected\n"])
    screen.shows(b"connected\r\n")
    assert sbx.pty.kill(first.pid) is True
    assert sbx.pty.kill(999_999) is False
