"""A Python that has started and imported already: it forks a child for each run.

    guest -- order, socket --> zygote -- fork --> child: "ready" on the socket
    guest -- what to run, its streams -----------> child: "started", and runs it
    guest <-- done, with the exit code ----------- child (a datagram, as its last act)
    guest <-- how a child has ended -- zygote

A child looks to its program like an interpreter that was started for it. What is
done at the interpreter's end is done here, without taking apart what the program
has not touched.
"""

_PRISTINE = list(globals())

import sys

_STARTED_WITH = frozenset(sys.modules)

import _socket
import array
import ast
import atexit
import fcntl
import gc
import io
import itertools
import json
import os
import resource
import select
import signal
import stat
import types
import weakref
from importlib.machinery import SourceFileLoader

_HERE = os.path.dirname(os.path.abspath(__file__))
# What many programs use, and what is quick to import. Not threading, nor what needs
# it: that has much to do in each child.
_USUAL = (
    "collections",
    "csv",
    "datetime",
    "functools",
    "itertools",
    "json",
    "math",
    "pathlib",
    "random",
    "re",
    "traceback",
)
_DUMPABLE = 4  # PR_SET_DUMPABLE
_ORDER_SIZE = 1
# The three streams, and the two ends of a context's channel.
_MAX_FDS = 5
# What a context is given begins here.
_FIRST_EXTRA = 3
# Out of the way of those numbers.
_ASIDE = 64
# Without an order in this time there is no hurry.
_IDLE_MS = 2
_UNTIL_KILLED = 1.0
_MEMORY = b"m"
# No exit code: the process ends itself by the signal, as shells want it.
_INTERRUPTED = -2


def _c_function(name):
    """One of the C library's, which can be done without."""
    try:
        import ctypes

        return getattr(ctypes.CDLL(None), name)
    except (ImportError, OSError, AttributeError):
        return lambda *arguments: None


_prctl = _c_function("prctl")
# Gives back what importing has left over: each page is one more to fork.
_trim = _c_function("malloc_trim")


def _coerced():
    """What the interpreter has added to its environment itself (PEP 538)."""
    with open("/proc/self/environ", "rb") as file:
        given = file.read().split(b"\0")
    if "LC_CTYPE" in os.environ and not any(it.startswith(b"LC_CTYPE=") for it in given):
        return {"LC_CTYPE": os.environ["LC_CTYPE"]}
    return {}


_COERCED = _coerced()

# What is there before anybody runs anything.


def _read(name):
    """A file beside this one, which is no module that a program could see."""
    with open(os.path.join(_HERE, name), "rb") as file:
        return file.read()


def _compiled_of(name):
    # Of a bare name a traceback would show what lies in the workspace.
    return compile(_read(name), os.path.join(_HERE, name), "exec", dont_inherit=True)


# Where they may be used, the files are not.
_DISPLAY = _compiled_of("display.py")
_CONTEXT = _compiled_of("context.py")
_INSTALL = _compiled_of("install.py")
_AHEAD = _compiled_of("ahead.py")


def _display():
    display = types.ModuleType("_sandbox_display")
    exec(_DISPLAY, display.__dict__)
    return display


def _names_of(code, name):
    names = {"__name__": name, "__builtins__": sys.modules["builtins"]}
    exec(code, names)
    return names


def preload(modules, ahead):
    """Imports what is there of the modules, and what shows what programs display."""
    import importlib
    import warnings

    # Large, and few programs display without one of the modules.
    display = _display() if modules else None
    for name in (*_USUAL, *modules):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if name == "matplotlib.pyplot":
                    display.before_pyplot()
                load = ahead.load if name in modules else importlib.import_module
                load(name)
        except (Exception, SystemExit):
            # As good as missing: the program will see why.
            for loaded in [key for key in sys.modules if key.partition(".")[0] == name]:
                del sys.modules[loaded]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _use_once()
    threading = sys.modules.get("threading")
    if hasattr(threading, "_counter"):
        # Names of threads begin anew.
        threading._counter = itertools.count(1).__next__
    ahead.look()
    return display


def _use_once():
    """Fills what the libraries keep, and leaves no other trace."""
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        frame = pandas.DataFrame({"a": ["x", "y"], "b": [1.5, 2.5]})
        repr(frame.groupby("a")["b"].mean())
        frame.describe()
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        figure, axes = pyplot.subplots()
        axes.plot([1, 2], [3, 4], label="a")
        axes.bar([1, 2], [3, 4])
        axes.set_title("a")
        axes.legend()
        figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
        pyplot.close("all")
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None


def _watched():
    """What was looked at at the start: when it changes, another start would differ."""
    paths = [path for path in sys.path[1:] if path]
    site = sys.modules.get("site")
    if site is not None:
        user = site.getusersitepackages()
        # Where it came to be since, another start would look into it.
        if user in sys.path or not os.path.isdir(user):
            paths.append(user)
        else:
            return [[user, -1]]
    if "matplotlib" in sys.modules:
        paths.append(sys.modules["matplotlib"].get_configdir())
    watched = []
    for path in dict.fromkeys(paths):
        try:
            watched.append([path, os.stat(path).st_mtime_ns])
        except OSError:
            watched.append([path, None])
    return watched


def _shadowable():
    """Modules that a file beside the script would stand before."""
    names = {name.partition(".")[0] for name in sys.modules if name not in _STARTED_WITH}
    return sorted(names - set(sys.builtin_module_names) - {"__main__", "__mp_main__"})


# The zygote.


def serve(control, display, ahead):
    """Forks as it is told; returns in each child, with the socket that it is told on."""
    control = _socket.socket(fileno=control)
    # Programs of the same user could look into what is dumpable.
    _prctl(_DUMPABLE, 0, 0, 0, 0)
    _open_streams()
    child = _Child(display, ahead)
    gc.collect()
    _trim(0)
    # Nothing of this is looked at again, by no child either.
    gc.freeze()
    ready = {
        "pid": os.getpid(),
        "env": child.env,
        "names": _shadowable(),
        "watched": _watched(),
    }
    _tell(control, ready)
    poll = select.poll()
    poll.register(control, select.POLLIN)
    children = {}
    while True:
        for fd, _ in poll.poll():
            if fd in children:
                poll.unregister(fd)
                os.close(fd)
                _tell_end(control, children.pop(fd))
                continue
            order, fds = _receive(control, _ORDER_SIZE, 1)
            if not order:
                os._exit(0)
            if order == _MEMORY:
                _tell(control, {"memory_bytes": _memory_bytes()})
                continue
            try:
                pid = os.fork()
            except OSError:
                # No process is left: whoever waits sees the end of its socket.
                os.close(fds[0])
                continue
            if pid == 0:
                os.closerange(3, fds[0])
                os.closerange(fds[0] + 1, 4096)
                control.detach()
                child.begins(_socket.socket(fileno=fds[0]))
                return child
            os.close(fds[0])
            pidfd = os.pidfd_open(pid)
            children[pidfd] = pid
            poll.register(pidfd, select.POLLIN)


def _memory_bytes():
    with open("/proc/self/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _receive(socket, size, most):
    data, ancillary, _, _ = socket.recvmsg(size, _socket.CMSG_SPACE(4 * most))
    fds = array.array("i")
    for _, _, content in ancillary:
        fds.frombytes(content)
    return data, fds


def _tell(socket, message):
    socket.sendall(json.dumps(message).encode() + b"\n")


def _tell_end(control, pid):
    _, status, usage = os.wait4(pid, 0)
    _tell(
        control,
        {
            "pid": pid,
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            "cpu_us": int((usage.ru_utime + usage.ru_stime) * 1e6),
            "max_rss_bytes": usage.ru_maxrss * 1024,
        },
    )


# A child.


class _Child:
    """What can be made before a child is forked is made by the zygote: each page that a
    child is the first to touch costs a fault."""

    def __init__(self, display, ahead):
        self.display = display
        self.ahead = ahead
        # A program sees it as what interpreters have that are started.
        install = _names_of(_INSTALL, "sitecustomize")["_install"]
        self.pyplot_hook = install(self._load_display)
        self.numpy = sys.modules.get("numpy")
        self.env = {name: value for name, value in os.environ.items() if name not in _COERCED}
        self.loaded = frozenset(sys.modules)

    def is_replaced(self, package):
        """It is another one that the program imports."""
        if package == "matplotlib" and self.pyplot_hook not in sys.meta_path:
            sys.meta_path.insert(0, self.pyplot_hook)

    def _load_display(self):
        if self.display is None:
            self.display = _display()
            self.display.FOLDER = self.begin["display"]
        return sys.modules.setdefault("_sandbox_display", self.display)

    def begins(self, socket):
        _prctl(_DUMPABLE, 1, 0, 0, 0)
        self.socket = socket
        self.pid = os.getpid()
        if self.display is not None:
            self.display._process = self.pid
        if self.numpy is not None:
            self.numpy.random.seed()
        gc.enable()

    def wait(self):
        """Until it is told what to run; then the process is as that needs it."""
        socket = self.socket
        socket.sendall(b"%d\n" % self.pid)
        waiting = select.poll()
        waiting.register(socket, select.POLLIN)
        if not waiting.poll(_IDLE_MS):
            _use_interpreter()
        del waiting
        head, streams = _receive(socket, 4, _MAX_FDS)
        if len(head) < 4 or len(streams) < 3:
            os._exit(0)
        left = int.from_bytes(head, "little")
        text = bytearray()
        while len(text) < left:
            piece = socket.recv(left - len(text))
            if not piece:
                os._exit(0)
            text += piece
        self.begin = begin = json.loads(text)
        try:
            self._become(begin, streams)
        except OSError:
            # Seen as a child that ends before it has started anything.
            os._exit(127)
        socket.send(b"s")
        socket.close()
        for number, fd in enumerate(self.extra, _FIRST_EXTRA):
            os.dup2(fd, number)
            os.close(fd)

    def _become(self, begin, streams):
        os.setpgid(0, 0)
        os.chdir(begin["cwd"])
        for number, fd in enumerate(streams[:_FIRST_EXTRA]):
            os.dup2(fd, number)
            os.close(fd)
        self.extra = []
        for fd in streams[_FIRST_EXTRA:]:
            self.extra.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ASIDE))
            os.close(fd)
        # When memory runs out the program goes first.
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(score, b"1000")
        os.close(score)
        limits = begin["limits"]
        for kind, value in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, limits["file_bytes"]),
            (resource.RLIMIT_NPROC, limits["nproc"]),
            (resource.RLIMIT_DATA, limits["data_bytes"]),
            # Means nothing here, goes on to all that is started, and nobody can
            # raise it again: so the run's processes are known.
            (resource.RLIMIT_RTTIME, begin["mark"]),
        ):
            if value is not None:
                try:
                    resource.setrlimit(kind, (value, value))
                except ValueError:
                    # It is lower already.
                    pass

    def prepare(self):
        """The program's `__main__`, as globals to run it in."""
        begin = self.begin
        file = begin["argv"][0]
        if begin["env"] != self.env:
            env = {**begin["env"], **_COERCED}
            os.environ.clear()
            os.environ.update(env)
        sys.argv = list(begin["argv"])
        sys.orig_argv = begin["command"] + sys.argv
        sys.path[0] = begin["folder"]
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None:
            # Where the program began, for those that it spawns.
            processes.ORIGINAL_DIR = os.getcwd()
        if self.display is not None:
            self.display.FOLDER = begin["display"]
        if not stat.S_ISCHR(os.fstat(0).st_mode):
            _open_stream("stdin", 0, "r")
        # Not made before: what is frozen is not collected either.
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        names = main.__dict__
        names.clear()
        names.update(dict.fromkeys(_PRISTINE))
        names["__name__"] = "__main__"
        names["__builtins__"] = sys.modules["builtins"]
        names["__loader__"] = SourceFileLoader("__main__", file)
        names["__file__"] = file
        if "__annotations__" in names:
            names["__annotations__"] = {}
        if begin["context"]:
            self.ahead.hide(self.is_replaced)
        return names

    def compile(self):
        if self.begin["context"]:
            return _renamed(_CONTEXT, self.begin["argv"][0])
        with open(self.begin["argv"][0], "rb") as file:
            source = file.read()
        return compile(source, self.begin["argv"][0], "exec", dont_inherit=True)


def _renamed(code, name):
    """The code as if compiled of the file of that name."""
    constants = (_renamed(it, name) if isinstance(it, types.CodeType) else it for it in code.co_consts)
    return code.replace(co_filename=name, co_consts=tuple(constants))


def _open_streams():
    """As the interpreter opens them where two are pipes. Children put others in their
    place: a stream knows its descriptor by number alone, and what kind of file it is."""
    _open_stream("stdin", 0, "r")
    for name, number in (("stdout", 1), ("stderr", 2)):
        other, pipe = os.pipe()
        os.dup2(pipe, number)
        os.close(other)
        os.close(pipe)
        _open_stream(name, number, "w")


def _open_stream(name, number, mode):
    stream = getattr(sys, f"__{name}__")
    raw = io.open(number, mode + "b", -1 if hasattr(stream.buffer, "raw") else 0, closefd=False)
    getattr(raw, "raw", raw).name = stream.name
    made = io.TextIOWrapper(
        raw,
        stream.encoding,
        stream.errors,
        "\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    made.mode = mode
    setattr(sys, name, made)
    setattr(sys, f"__{name}__", made)


def _use_interpreter():
    """Touches what every program touches: the first touch of a page costs a fault."""
    names = {"__name__": "warm", "__builtins__": sys.modules["builtins"]}
    text = "import json, os\nclass A:\n def f(self, *a):\n  return [str(x) for x in a]\n"
    text += "try:\n print(*A().f(1, 2.5, {'a': (1, None)}), file=out)\n raise ValueError('a')\n"
    text += "except ValueError as e:\n json.dumps({'e': repr(e), 'n': 42})\n"
    names["out"] = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    exec(compile(text, "warm", "exec", dont_inherit=True), names)
    names.clear()


# The end of a program.


def _failed(error):
    """What the interpreter does with what nobody has caught: the exit code."""
    if isinstance(error, SystemExit):
        return _code(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as instead:
        return _code(instead)
    except BaseException as second:
        sys.stderr.write("Error in sys.excepthook:\n")
        second.__traceback__ = second.__traceback__.tb_next
        sys.__excepthook__(type(second), second, second.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, error.__traceback__)
    return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _code(error):
    code = error.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF if -(1 << 63) <= code < 1 << 63 else 0xFF
    try:
        sys.stderr.write(str(code) + "\n")
    except Exception:
        pass
    return 1


def _finish(loaded):
    """What happens at an interpreter's end, to what the program has made."""
    names = sys.modules["__main__"].__dict__ if "__main__" in sys.modules else {}
    for name in ("__file__", "__cached__"):
        names.pop(name, None)
    del names
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    atexit._run_exitfuncs()
    _flush()
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    left = []
    made = ["__main__"]
    if len(sys.modules) != len(loaded):
        made += [name for name in sys.modules if name not in loaded]
    for name in made:
        module = sys.modules.pop(name, None)
        try:
            left.append(weakref.ref(module))
        except TypeError:
            pass
        del module
    gc.collect()
    for module in reversed(left):
        module = module()
        if isinstance(module, types.ModuleType):
            _clear(module.__dict__)
        del module
    _flush()


def _clear(names):
    """As the interpreter does: names with one underscore go first."""
    for first in (True, False):
        for name in list(names):
            private = name[:1] == "_" and name[1:2] != "_"
            if private == first and name != "__builtins__":
                names[name] = None


def _flush():
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()


def _done(child, code):
    """Says it where nobody waits for this process to be taken apart. Whoever says it
    is killed: so it cannot be said by what runs on."""
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        socket.sendto(b"%d" % code, _socket.MSG_DONTWAIT, "\0" + child.begin["done"])
    except OSError:
        # Its end will be seen, a little later.
        return
    # What it has used can be read for as long as it is there.
    select.select([], [], [], _UNTIL_KILLED)


def _start():
    """As a zygote; returns in a child that knows what to run."""
    options = json.loads(sys.argv[1])
    ahead = _names_of(_AHEAD, "_sandbox_ahead")["Ahead"](_STARTED_WITH)
    display = preload(options["modules"], ahead)
    if options["template"]:
        import _sandbox_template

        control = _sandbox_template.join()
        del sys.modules["_sandbox_template"]
    else:
        control = os.dup(0)
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    child = serve(control, display, ahead)
    child.wait()
    return child


# Out here, so that the program has as little as may be below it.
_child = _start()
_error = None
_compiled = None
_names = _child.prepare()
try:
    _compiled = _child.compile()
except BaseException as _caught:
    _error = _caught.with_traceback(None)
if _compiled is not None:
    try:
        exec(_compiled, _names)
    except BaseException as _caught:
        _error = _caught.with_traceback(_caught.__traceback__.tb_next)
_exit = 0 if _error is None else _failed(_error)
del _error, _names, _compiled
try:
    _finish(_child.loaded)
except Exception:
    # Output that cannot be written, mostly: the interpreter knows what to say.
    sys.exit(_exit & 0xFF)
if _exit == _INTERRUPTED:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
if os.getpid() == _child.pid:
    _done(_child, _exit)
os._exit(_exit)
