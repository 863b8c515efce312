# Programs that are run by an interpreter of their own and by one that was forked, and
# must not be told apart. Each begins with a line of `#:` and its name; what follows the
# name is for the run: `stdin`, `args`, `env NAME=VALUE`.
#: hello
print("hello")
#: unicode
print("äöü ☃ 𝄞", ascii("ä"))
#: globals
print(sorted(dir()))
print({k: v for k, v in globals().items() if k not in ("__builtins__", "__loader__", "__file__")})
print(__name__, __spec__, __package__, __cached__, __annotations__, __doc__)
print(type(__loader__).__name__, __loader__.name, __loader__.path == __file__)
#: docstring
"""What it is for."""
print(__doc__)
#: names of files
import os, sys
print(os.path.basename(__file__).startswith(".main-"), os.path.isabs(__file__))
print(sys.argv[0] == __file__, sys.path[0] == os.path.dirname(os.path.realpath(__file__)))
print(sys.orig_argv[:2], sys.orig_argv[2] == __file__, os.path.exists(__file__))
print(open(__file__).read().startswith("import os"))
#: the rest of the path
import sys
print(sys.path[1:], sys.executable, sys.prefix, sys.flags, sys.version)
#: arguments args
import sys
print(sys.argv[1:], sys.orig_argv[3:])
#: standard input stdin
import sys
print(input())
print(sys.stdin.read())
#: no input
import sys
print(repr(sys.stdin.read()))
try:
    input()
except EOFError as error:
    print(error)
#: binary input stdin
import sys
print(sys.stdin.buffer.read()[:5])
#: streams
import sys
for stream in sys.stdin, sys.stdout, sys.stderr:
    print(stream, stream.fileno(), stream.isatty(), stream.encoding, stream.errors, stream.mode)
    print(stream.newlines, stream.line_buffering, stream.write_through, stream.name, stream.closed)
    print(type(stream.buffer), stream.buffer.name)
print(sys.__stdout__ is sys.stdout, sys.__stderr__ is sys.stderr, sys.__stdin__ is sys.stdin)
#: both streams
import sys
for number in range(50):
    print(number)
    print(number, file=sys.stderr)
#: raw writes
import os, sys
print("first")
os.write(1, b"second\n")
sys.stdout.buffer.write(b"third\xff\n")
print("fourth")
#: much output
for number in range(20000):
    print(number, "x" * 20)
#: an exception
def inner(value):
    return 1 / value

def outer():
    inner(0)

outer()
#: an exception at the top
raise ValueError("with a message")
#: chained exceptions
try:
    {}["a"]
except KeyError as error:
    raise RuntimeError("wrapped") from error
#: exceptions in exceptions
try:
    int("x")
except ValueError:
    None.a
#: a group of exceptions
raise ExceptionGroup("several", [ValueError(1), TypeError(2)])
#: notes
error = ValueError("a")
error.add_note("look here")
raise error
#: a syntax error
print("never")
x = = 1
#: an indentation error
if True:
print(1)
#: an unterminated string
x = "abc
#: compile in the program
exec(compile("1 / 0", "<made>", "exec"))
#: recursion
def f():
    f()
try:
    f()
except RecursionError as error:
    print(error)
#: recursion that is not caught
import sys
def hook(kind, value, trace):
    depth = 0
    while trace:
        depth, trace = depth + 1, trace.tb_next
    print(kind, value, 980 < depth < 1010)
sys.excepthook = hook
def f(n):
    return f(n + 1)
f(0)
#: exit codes
import sys
sys.exit(3)
#: exit with text
import sys
sys.exit("that was it")
#: exit with nothing
import sys
sys.exit()
#: exit with a large number
import sys
sys.exit(2 ** 70)
#: exit with 256
import sys
sys.exit(256)
#: exit with a negative number
import sys
sys.exit(-1)
#: exit with a bool
raise SystemExit(True)
#: exit with an object
import sys
sys.exit([1, "a"])
#: quit
quit(5)
#: exit in a function with finally
import sys
try:
    sys.exit(4)
finally:
    print("finally")
#: os._exit
import os
print("before")
os._exit(9)
#: a signal
import os, signal
os.kill(os.getpid(), signal.SIGTERM)
#: sigkill
import os
print("before")
os.kill(os.getpid(), 9)
#: abort
import os
os.abort()
#: keyboard interrupt
raise KeyboardInterrupt
#: sigint
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
#: handlers
import signal
for number in sorted(signal.valid_signals()):
    print(number, signal.getsignal(number))
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
print(signal.getitimer(signal.ITIMER_REAL), signal.set_wakeup_fd(-1))
#: an alarm
import signal
signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.01)
signal.pause()
#: a broken pipe
import os
r, w = os.pipe()
os.close(r)
try:
    os.write(w, b"a")
except BrokenPipeError as error:
    print(error)
#: atexit
import atexit
atexit.register(print, "first")
atexit.register(print, "second")
print("main")
#: atexit that fails
import atexit
@atexit.register
def fail():
    1 / 0
print("main")
#: atexit after an exception
import atexit
atexit.register(print, "at exit")
raise ValueError("a")
#: finalizers
class Noisy:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        print("del", self.name)
a = Noisy("a")
_b = Noisy("b")
c = Noisy("c")
c.itself = c
def uses():
    return a
print("end")
#: finalizers in a module
import sys, types
class Noisy:
    def __del__(self):
        print("del")
module = types.ModuleType("mine")
module.thing = Noisy()
sys.modules["mine"] = module
del module
#: weakref finalize
import weakref
class A: pass
a = A()
weakref.finalize(a, print, "finalized")
#: an exception in a finalizer
class A:
    def __del__(self):
        raise ValueError("in del")
a = A()
del a
print("on")
#: generators at the end
def g():
    try:
        yield 1
    finally:
        print("closed")
it = g()
next(it)
#: context left open
import contextlib
stack = contextlib.ExitStack()
stack.callback(print, "never")
#: threads
import threading, time
def work(n):
    time.sleep(0.1 * n + 0.05)
    print("done", n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
print(threading.current_thread().name, threading.current_thread() is threading.main_thread())
#: threads that outlive main
import threading, time
threading.Thread(target=lambda: (time.sleep(0.05), print("later"))).start()
threading.Thread(target=lambda: (time.sleep(50), print("never")), daemon=True).start()
print("main", threading.active_count())
#: an exception in a thread
import threading
def fail():
    raise ValueError("in thread")
t = threading.Thread(target=fail, name="worker")
t.start()
t.join()
#: thread pool
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(lambda x: x * x, range(10))))
#: process pool
from concurrent.futures import ProcessPoolExecutor
def square(x):
    return x * x
if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        print(list(pool.map(square, range(5))))
#: multiprocessing fork
import multiprocessing as mp
def work(queue):
    queue.put(mp.current_process().name)
if __name__ == "__main__":
    context = mp.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
#: multiprocessing spawn
import multiprocessing as mp
def work(queue, value):
    queue.put((value, __name__))
if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue, 7))
    process.start()
    print(queue.get())
    process.join()
    print(process.exitcode)
#: shared memory and forkserver
import multiprocessing as mp
def work(value):
    value.value += 1
if __name__ == "__main__":
    context = mp.get_context("forkserver")
    value = context.Value("i", 41)
    process = context.Process(target=work, args=(value,))
    process.start()
    process.join()
    print(value.value)
#: fork
import os, sys
pid = os.fork()
if pid == 0:
    print("child")
    sys.exit(7)
_, status = os.waitpid(pid, 0)
print("parent", os.waitstatus_to_exitcode(status))
#: a child that runs to the end
import os
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
print("parent" if pid else "child")
#: fork and daemonize
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        os._exit(0)
    os._exit(0)
os.wait()
print("main")
#: subprocess
import subprocess, sys
print(subprocess.run(["echo", "hi"], capture_output=True, text=True).stdout)
print(subprocess.run([sys.executable, "-c", "import sys; print(sys.argv, sys.path[0])", "a"],
                     capture_output=True, text=True).stdout)
subprocess.run("echo to stdout; echo to stderr >&2; exit 3", shell=True)
print(subprocess.call(["sh", "-c", "kill -9 $$"]))
#: subprocess environment
import subprocess
print(subprocess.run(["env"], capture_output=True, text=True).stdout)
#: environment env GREETING=hello
import os
print(os.environ["GREETING"], os.getenv("GREETING"), dict(os.environ))
os.environ["ADDED"] = "x"
os.system("echo $GREETING $ADDED")
del os.environ["GREETING"]
os.system("echo [$GREETING]")
#: environment as bytes
import os
print(os.environb[b"PATH"], os.fsencode("ä"), os.get_exec_path())
#: locale
import locale, sys
print(locale.getlocale(), locale.getpreferredencoding(), sys.getfilesystemencoding())
print(sys.getfilesystemencodeerrors(), sys.getdefaultencoding())
#: time
import time, datetime
print(time.tzname, time.timezone, datetime.datetime(2024, 7, 1).astimezone())
#: descriptors
import os
print(sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:3], len(os.listdir("/proc/self/fd")))
#: process
import os
print(os.getpgid(0) == os.getpid(), os.getsid(0) != os.getpid(), os.getppid() > 0)
print(os.umask(0o22), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
print(os.getuid(), os.geteuid(), os.getgroups(), os.getcwd() == os.path.dirname(__file__))
#: limits
import resource
for name in "CORE", "FSIZE", "NOFILE", "STACK", "AS", "CPU", "DATA", "NPROC":
    print(name, resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
#: capabilities and state
for line in open("/proc/self/status"):
    if line.startswith(("Cap", "NoNewPrivs", "Seccomp:", "SigBlk", "SigIgn", "SigCgt", "Uid", "Gid", "Umask", "Name")):
        print(line, end="")
#: own files in proc
import os
print(os.stat("/proc/self/fd").st_uid == os.getuid(), len(open("/proc/self/maps").read()) > 0)
print(open("/proc/self/comm").read(), open("/proc/self/oom_score_adj").read())
print(os.readlink("/proc/self/exe"), os.readlink("/proc/self/cwd") == os.getcwd())
#: temporary files
import os, tempfile
print(tempfile.gettempdir() == os.environ.get("TMPDIR", "/tmp"))
with tempfile.NamedTemporaryFile() as file:
    file.write(b"abc")
    file.flush()
    print(os.path.getsize(file.name))
#: written files
import os
with open("made.txt", "w") as file:
    file.write("made")
os.makedirs("folder/below")
open("folder/below/other.bin", "wb").write(bytes(range(256)))
print(sorted(name for name in os.listdir() if not name.startswith(".")))
#: a file that is not closed
file = open("left.txt", "w")
file.write("this is flushed at the end")
#: modules beside the script
open("neighbour.py", "w").write("VALUE = 42\nprint(__name__, __file__.endswith('neighbour.py'))\n")
import neighbour
print(neighbour.VALUE)
import importlib
open("neighbour.py", "w").write("VALUE = 'changed'\n")
print(importlib.reload(neighbour).VALUE)
#: missing module
import nothing_of_that_name
#: missing name in module
from json import nothing_of_that_name
#: zip and package imports
import os, sys, zipfile
with zipfile.ZipFile("code.zip", "w") as archive:
    archive.writestr("zipped/__init__.py", "X = 1")
    archive.writestr("zipped/inner.py", "from . import X\nY = X + 1")
sys.path.insert(0, "code.zip")
from zipped.inner import Y
print(Y)
#: inspection
import inspect
def documented(a, b=2, *args, c, **kwargs) -> int:
    "It does."
    return a
print(inspect.signature(documented), inspect.getsource(documented), inspect.getdoc(documented))
print(inspect.getmodule(documented).__name__, documented.__module__)
#: tracebacks in the program
import traceback
def f():
    raise ValueError("a")
try:
    f()
except ValueError:
    traceback.print_exc()
    print(traceback.format_exc().replace(__file__, "FILE"))
#: pickling
import pickle
class Point:
    def __init__(self, x):
        self.x = x
    def __eq__(self, other):
        return self.x == other.x
print(pickle.loads(pickle.dumps(Point(3))) == Point(3), Point.__module__, Point.__qualname__)
#: dataclasses and enums
import dataclasses, enum
@dataclasses.dataclass(order=True)
class D:
    a: int
    b: list = dataclasses.field(default_factory=list)
class Colour(enum.Enum):
    RED = 1
print(D(1), D(1) < D(2), Colour.RED, list(Colour), __annotations__)
x: int = 3
print(__annotations__)
#: asyncio
import asyncio
async def work(n):
    await asyncio.sleep(0.001 * n)
    return n
async def main():
    print(await asyncio.gather(*map(work, range(5))))
    process = await asyncio.create_subprocess_exec("echo", "sub", stdout=-1)
    print((await process.communicate())[0], process.returncode)
asyncio.run(main())
#: asyncio that fails
import asyncio
async def main():
    raise ValueError("in a task")
asyncio.run(main())
#: random is seeded anew
import random, secrets, uuid
print(len({random.random() for _ in range(5)}), len(secrets.token_hex()), uuid.uuid4().version)
random.seed(42)
print(random.random(), random.randint(1, 100), random.sample(range(100), 3))
#: hashes
print(hash(1), hash(1.5), hash((1, 2)), hash(None) == hash(None), {1, 2, 3})
import hashlib
print(hashlib.sha256(b"a").hexdigest())
#: garbage
import gc
print(gc.isenabled(), gc.get_threshold(), gc.garbage, gc.get_debug(), gc.callbacks)
#: warnings
import warnings
warnings.warn("look out")
warnings.warn("old", DeprecationWarning)
def f():
    warnings.warn("deep", UserWarning, stacklevel=2)
f()
print(warnings.filters)
#: logging
import logging
logging.warning("w")
logging.basicConfig(level=logging.INFO)
logging.getLogger("a.b").info("i")
print(logging.getLogger().handlers)
#: excepthook
import sys
def hook(kind, value, trace):
    print("hook", kind.__name__, value, trace.tb_lineno, sys.exc_info())
sys.excepthook = hook
raise ValueError("a")
#: excepthook that fails
import sys
def hook(kind, value, trace):
    raise TypeError("second")
sys.excepthook = hook
raise ValueError("first")
#: last exception
import atexit, sys
atexit.register(lambda: print(sys.last_type, sys.last_value, sys.last_traceback.tb_lineno))
1 / 0
#: unraisable hook
import sys
sys.unraisablehook = lambda args: print("unraisable", args.exc_type.__name__)
class A:
    def __del__(self):
        raise ValueError
A()
#: stdout replaced
import io, sys
sys.stdout = io.StringIO()
print("lost")
sys.stdout = sys.__stdout__
print("seen")
#: stdout closed
import sys
print("a")
sys.stdout.close()
#: stdout that cannot be written
import os, sys
print("a")
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
print("b")
#: stderr gone
import sys
sys.stderr = None
1 / 0
#: main replaced
import sys, types
sys.modules["__main__"] = types.ModuleType("__main__")
print(__name__)
#: modules cleared
import sys
print("json" in sys.builtin_module_names, "sys" in sys.modules)
sys.modules.clear()
#: trace and profile
import sys
print(sys.gettrace(), sys.getprofile(), sys.getswitchinterval(), sys.getrecursionlimit())
print(sys.dont_write_bytecode, sys.warnoptions, sys._xoptions, sys.pycache_prefix, sys.meta_path[1:])
#: interning and ints
print(sys_int := 10 ** 50, "a" is "a", type(sys_int))
try:
    print(int("1" * 5000))
except ValueError as error:
    print(error)
#: type checks of builtins
import builtins
print(len(dir(builtins)), callable(builtins.display), builtins.__import__)
#: typing
import typing
def f(a: "list[int]", b: typing.Optional[str] = None): ...
print(typing.get_type_hints(f))
#: future import
from __future__ import annotations
def f(a: Undefined): ...
print(f.__annotations__)
#: no future left over
print(1 / 2, [x for x in range(3)])
def f(a: int): ...
print(f.__annotations__)
#: sqlite
import sqlite3
db = sqlite3.connect("data.db")
db.execute("create table t (a)")
db.executemany("insert into t values (?)", [(i,) for i in range(5)])
db.commit()
print(db.execute("select sum(a) from t").fetchone())
#: ssl
import ssl
print(len(ssl.RAND_bytes(8)), ssl.create_default_context().verify_mode)
#: sockets
import socket
a, b = socket.socketpair()
a.send(b"x")
print(b.recv(1), a.fileno() > 2)
#: ctypes
import ctypes
print(ctypes.CDLL(None).getpid() == __import__("os").getpid(), ctypes.sizeof(ctypes.c_long))
#: code module and eval
print(eval("__name__"), [*map(str, range(3))])
exec("y = 5")
print(y)
#: decimal context
import decimal
print(decimal.getcontext(), decimal.Decimal(1) / 3)
#: a long computation
print(sum(i * i for i in range(300000)))
#: runpy
import runpy
open("other.py", "w").write("print(__name__, __file__)\n")
runpy.run_path("other.py", run_name="__main__")
print(__name__)
#: pdb without input
import pdb
try:
    pdb.run("1 + 1")
except BaseException as error:
    print(type(error).__name__)
#: help
help(len)
#: json and re and datetime
import datetime, json, re
print(json.dumps({"a": [1, None, True]}), re.sub(r"\d+", "#", "a1b22"), datetime.date(2024, 2, 29))
#: numpy
import numpy as np
print(np.arange(6).reshape(2, 3) @ np.ones((3, 1)), np.__version__, np.get_printoptions())
np.random.seed(1)
print(np.random.rand(), np.random.default_rng(3).integers(100))
#: numpy warnings
import numpy as np
print(np.array([1.0]) / 0, np.geterr())
#: numpy and threads
import numpy as np
a = np.arange(90000.0).reshape(300, 300)
print(np.linalg.det(np.eye(50)), float((a @ a.T).sum()))
#: pandas
import pandas as pd
frame = pd.DataFrame({"a": [1, 2, 2], "b": [1.5, None, 3.0], "c": ["x", "y", "z"]})
print(frame, frame.describe(), frame.groupby("a").b.sum(), frame.dtypes)
frame.to_csv("frame.csv")
print(pd.read_csv("frame.csv"))
#: matplotlib
import matplotlib, matplotlib.pyplot as plt
print(matplotlib.get_backend(), plt.get_fignums(), plt.rcParams["figure.dpi"], matplotlib.get_configdir())
plt.plot([1, 2, 3])
plt.title("title")
plt.savefig("plot.png", metadata={"Software": None})
print(plt.gcf().number)
#: matplotlib show
import matplotlib.pyplot as plt
plt.bar([1, 2], [3, 4])
plt.show()
print(plt.get_fignums())
#: display
display({"a": 1})
import pandas as pd
display(pd.Series([1, 2]))
