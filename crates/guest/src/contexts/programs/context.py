"""Keeps an interpreter alive: takes code from descriptor 3, and tells on descriptor
4 what it shows and how it ends. Uses IPython where that is installed."""

import builtins
import fcntl
import json
import os
import select
import signal
import sys
import threading
import types

# Where programs of the sandbox do not happen upon them.
_FIRST = 64
_requests = fcntl.fcntl(3, fcntl.F_DUPFD_CLOEXEC, _FIRST)
_replies = fcntl.fcntl(4, fcntl.F_DUPFD_CLOEXEC, _FIRST)
os.close(3)
os.close(4)



def _load_display():
    # Not there where the interpreter was told to leave out `site`.
    load = getattr(getattr(builtins, "display", None), "load", None)
    if load is not None:
        return load()
    module = _load("display")
    builtins.display = module.display
    return module


def _load(name):
    import importlib.util

    file = os.path.join(os.path.dirname(os.path.realpath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("_sandbox_" + name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _more_of(thing, is_figure):
    # Nothing is loaded before there is something to tell of.
    _display.more_of = _load("charts").more_of
    return _display.more_of(thing, is_figure)


_display = _load_display()
_display.more_of = _more_of
_process = os.getpid()
_main_thread = threading.main_thread()
_lock = threading.Lock()


class _Run:
    """The run under way."""

    number = 0
    # Its code is there to be read.
    is_asked = False
    is_interruptible = False
    is_interrupted = False


# Interruption: only code of the client is, and no frame is ever cut in two.


def _interrupt(_signal, _frame):
    if _Run.is_interruptible:
        raise KeyboardInterrupt
    # What comes between two runs was for the one that is over.
    if _Run.is_asked or select.select([_requests], [], [], 0)[0]:
        _Run.is_interrupted = True


def _let_interrupt():
    _Run.is_interruptible = True
    if _Run.is_interrupted:
        _Run.is_interrupted = False
        raise KeyboardInterrupt


def _frame(kind, payload):
    data = payload.encode("utf-8", "replace")
    return b"%d %s %d\n%s" % (_Run.number, kind, len(data), data)


def _write(data):
    held, _Run.is_interruptible = _Run.is_interruptible, False
    with _lock:
        while data:
            data = data[os.write(_replies, data) :]
    _Run.is_interruptible = held


def _show(bundle):
    # A forked child has the channel of its parent.
    if os.getpid() != _process:
        return
    frame = _frame(b"display", json.dumps(bundle))
    if threading.current_thread() is not _main_thread:
        with _lock:
            while frame:
                frame = frame[os.write(_replies, frame) :]
        return
    _write(frame)
    if _Run.is_interruptible and _Run.is_interrupted:
        _Run.is_interrupted = False
        raise KeyboardInterrupt


_display.sink = _show


# What both kinds of interpreters come to


class _Outcome:
    exit_code = 0
    result = None
    error = None

    def raised(self, error, traceback):
        self.exit_code = 1
        if isinstance(error, SystemExit):
            self.exit_code = _exit_code(error.code)
        name = type(error).__name__
        try:
            value = str(error)
        except Exception:
            value = "(it cannot be shown)"
        self.error = {"name": name, "value": value, "traceback": traceback}


def _exit_code(code):
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


# Without IPython


class _Plain:
    def __init__(self, module):
        import __future__
        import ast
        import linecache

        self._ast = ast
        self._lines = linecache
        self._globals = module.__dict__
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self._features = [
            getattr(__future__, name).compiler_flag for name in __future__.all_feature_names
        ]
        self._loop = None

    def run(self, code, outcome):
        name = f"<run {_Run.number}>"
        # So that tracebacks show the lines.
        self._lines.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            try:
                self._run(code, name, outcome)
            finally:
                _Run.is_interruptible = False
        except BaseException as error:
            outcome.raised(error, self._traceback(error))

    def _run(self, code, name, outcome):
        ast = self._ast
        tree = compile(code, name, "exec", self._flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        steps = [compile(tree, name, "exec", self._flags, dont_inherit=True)]
        for feature in self._features:
            if steps[0].co_flags & feature:
                self._flags |= feature
        if last is not None:
            steps.append(compile(last, name, "eval", self._flags, dont_inherit=True))
        value = None
        _let_interrupt()
        for step in steps:
            value = eval(step, self._globals)
            # CO_COROUTINE: there is an `await` at its top.
            if step.co_flags & 0x80:
                value = self._wait_for(value)
        if last is not None and value is not None:
            self._globals["_"] = value
            if not code.rstrip().endswith(";"):
                outcome.result = _display.result_of(value)

    def _wait_for(self, coroutine):
        import asyncio

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        task = self._loop.create_task(coroutine)
        try:
            return self._loop.run_until_complete(task)
        except BaseException:
            # Else it would go on in the next run that waits for something.
            if not task.done():
                task.cancel()
                self._loop.run_until_complete(asyncio.wait([task]))
            raise

    def _traceback(self, error):
        import traceback

        told = part = traceback.TracebackException.from_exception(error)
        while part is not None:
            # The steps that are ours say nothing of the client's code.
            part.stack[:] = [step for step in part.stack if step.filename != __file__]
            part = part.__cause__ or part.__context__
        return "".join(told.format())


# With IPython


def _with_ipython(module):
    import importlib.util

    if importlib.util.find_spec("IPython") is None:
        # What it needs besides need not be loaded, nor its folder named.
        raise ImportError
    import re
    import tempfile
    import warnings

    our_display = builtins.display
    colours = re.compile("\x1b\\[[0-9;]*m")

    # It would write its history and profile to the home folder.
    home = os.environ.setdefault("IPYTHONDIR", os.path.join(tempfile.gettempdir(), ".ipython"))
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type
    from traitlets.config import Config

    class Hook(DisplayHook):
        def start_displayhook(self):
            pass

        def write_output_prompt(self):
            pass

        def write_format_data(self, format_dict, md_dict=None):
            _Shell.outcome.result = _display._texts(format_dict)

        def finish_displayhook(self):
            pass

        def log_output(self, format_dict):
            pass

        def compute_format_data(self, result):
            if _display._is(result, "matplotlib.figure", "Figure"):
                return _display.result_of(result), {}
            found, metadata = super().compute_format_data(result)
            return {**found, **_display._more(result)}, metadata

    class Publisher(DisplayPublisher):
        def publish(self, data, *_args, **_options):
            _display.display(data, raw=True)

        def clear_output(self, wait=False):
            pass

    class _Shell(InteractiveShell):
        outcome = None
        displayhook_class = Type(Hook)
        display_pub_class = Type(Publisher)
        # Else commands had a terminal, and waited for input that nobody gives.
        system = InteractiveShell.system_raw

        def run(self, code, outcome):
            _Shell.outcome = outcome
            self.lines = ""
            try:
                try:
                    _let_interrupt()
                    done = self.run_cell(code, store_history=True)
                finally:
                    _Run.is_interruptible = False
                error = done.error_before_exec or done.error_in_exec
            except BaseException as raised:
                error = raised
            if error is not None:
                outcome.raised(error, self.lines or f"{type(error).__name__}: {error}")

        def _showtraceback(self, etype, evalue, stb):
            self.lines = colours.sub("", self.InteractiveTB.stb2text(stb))

        def ask_exit(self):
            raise SystemExit(0)

        def enable_gui(self, gui=None):
            pass

        def enable_matplotlib(self, gui=None):
            # Figures are shown as it is.
            return "inline", "agg"

    config = Config()
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ":memory:"
    warnings.filterwarnings("ignore", message="To exit: use")
    shell = _Shell.instance(config=config, user_module=module, ipython_dir=home)
    # One `display` for all: it makes artifacts too.
    builtins.display = shell.builtin_trap.auto_builtins["display"] = our_display
    plain_bundle = _display._bundle

    def bundle(thing):
        found, _ = shell.display_formatter.format(thing)
        # Empty for what displays itself.
        return found if found or hasattr(thing, "_ipython_display_") else plain_bundle(thing)

    _display._bundle = bundle
    return shell


def _interpreter():
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    # As where code is typed in by hand.
    if sys.path and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
        sys.path[0] = ""
    sys.argv[:] = [""]
    sys.modules["__main__"] = module
    try:
        return _with_ipython(module)
    except ImportError:
        return _Plain(module)


def _requests_in(pipe):
    """Number and code of each; ends when nobody asks any more."""
    left = b""
    while True:
        while b"\n" not in left:
            # Before it is read: no moment is without either.
            select.select([pipe], [], [])
            _Run.is_asked = True
            more = os.read(pipe, 1 << 16)
            if not more:
                return
            left += more
        head, left = left.split(b"\n", 1)
        number, size = map(int, head.split())
        parts = [left]
        missing = size - len(left)
        while missing > 0:
            more = os.read(pipe, 1 << 20)
            if not more:
                return
            parts.append(more)
            missing -= len(more)
        left = b"".join(parts)
        yield number, left[:size].decode("utf-8", "replace")
        left = left[size:]


def _flush():
    for stream in {sys.stdout, sys.__stdout__, sys.stderr, sys.__stderr__}:
        try:
            stream.flush()
        except Exception:
            pass


def _serve():
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.reconfigure(write_through=False, line_buffering=True)
        except (AttributeError, ValueError):
            pass
    signal.signal(signal.SIGINT, _interrupt)
    interpreter = _interpreter()
    _write(_frame(b"ready", ""))
    for number, code in _requests_in(_requests):
        _Run.number = number
        # Code may have set another one.
        signal.signal(signal.SIGINT, _interrupt)
        outcome = _Outcome()
        interpreter.run(code, outcome)
        if os.getpid() != _process:
            # A child that code forked and let run to its end.
            _flush()
            os._exit(outcome.exit_code)
        _finish(outcome)


def _finish(outcome):
    frames = b""
    if outcome.result:
        frames = _frame(b"result", json.dumps(outcome.result))
    if "matplotlib.pyplot" in sys.modules:
        # Figures come after the value, and one write is enough where there are none.
        _write(frames)
        frames = b""
        _show_open_figures()
    _flush()
    if outcome.error is not None:
        frames += _frame(b"error", json.dumps(outcome.error))
    # What comes from now on is for the next run, if there is one.
    _Run.is_asked = _Run.is_interrupted = False
    _write(frames + _frame(b"done", str(outcome.exit_code)))


def _show_open_figures():
    try:
        try:
            _let_interrupt()
            _display.show_open_figures()
        finally:
            _Run.is_interruptible = False
    except BaseException as error:
        _display._say("a figure that was left open", error)


_serve()
