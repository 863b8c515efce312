# Cells that a context runs one after the other. Each begins with a line of `#:`, and shows
# the same in an interpreter that was started and in one that was forked.
#: globals
print(sorted(globals()), __name__, __spec__, __doc__, __package__, __loader__)
print(type(__builtins__), __builtins__ is __import__("builtins"))
#: the interpreter
import sys
print(sys.argv, sys.orig_argv[:2], sys.orig_argv[2].endswith("/context.py"), len(sys.orig_argv))
print(sys.path, sys.executable, sys.prefix, sys.flags, sys.version)
print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile())
print(sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__)
print([type(it).__name__ for it in sys.path_hooks], sys.dont_write_bytecode)
# Ours, and one that a library has left.
ours = "Ahead", "PyplotHook", "_SixMetaPathImporter"
finders = [getattr(it, "__name__", type(it).__name__) for it in sys.meta_path]
print([it for it in finders if it not in ours])
print(sys.modules["__main__"].__dict__ is globals())
#: the process
import os, resource
print(sorted(os.environ.items()), os.getcwd(), os.umask(0o22), os.getpgid(0) == os.getpid())
print(sorted(os.listdir("/proc/self/fd"), key=int), os.nice(0), os.getresuid(), os.getgroups())
for name in "CORE", "FSIZE", "NOFILE", "DATA", "STACK", "AS", "NPROC", "MEMLOCK", "CPU":
    print(name, resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
for line in open("/proc/self/status"):
    if line.startswith(("SigB", "SigC", "SigI", "Cap", "NoNewPrivs", "Seccomp:", "TracerPid", "Shd")):
        print(line.strip())
print(open("/proc/self/oom_score_adj").read(), os.access("/proc/self/mem", os.R_OK))
#: signals
import signal
for number in sorted(signal.valid_signals()):
    handler = signal.getsignal(number)
    print(number, getattr(handler, "__name__", handler))
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.set_wakeup_fd(-1))
#: a handler of its own
caught = []
previous = signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(number))
os.kill(os.getpid(), signal.SIGUSR1)
caught, previous
#: streams
for stream in sys.stdin, sys.stdout, sys.stderr:
    print(stream, stream.fileno(), stream.isatty(), stream.encoding, stream.errors, stream.mode)
    print(stream.newlines, stream.line_buffering, stream.write_through, stream.name, stream.closed)
    print(type(stream.buffer), stream.buffer.name)
print(sys.__stdout__ is sys.stdout, sys.__stderr__ is sys.stderr, sys.__stdin__ is sys.stdin)
repr(sys.stdin.read())
#: input
input("> ")
#: exceptions
def inner(value):
    return 1 / value
def outer():
    try:
        inner(0)
    except ZeroDivisionError as error:
        raise RuntimeError("wrapped") from error
outer()
#: an exception of a library
import json
json.loads("{")
#: a warning
import warnings
warnings.warn("look")
[(it[0], it[2].__name__) for it in warnings.filters]
#: a printed traceback
import traceback
try:
    inner(0)
except ZeroDivisionError:
    traceback.print_exc()
#: threads
import threading
print(threading.main_thread() is threading.current_thread(), threading.active_count())
print([it.name for it in threading.enumerate()], threading.main_thread().name)
print(threading.get_ident() == threading.main_thread().ident, threading.get_native_id() == os.getpid())
out = []
workers = [threading.Thread(target=out.append, args=(n,)) for n in range(4)]
[it.start() for it in workers], [it.join() for it in workers]
print(sorted(out), workers[0].name)
#: a pool of threads
from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor
with ThreadPoolExecutor(2) as pool:
    print(list(pool.map(len, ["a", "bb"])))
#: a pool of processes
import math, multiprocessing
with ProcessPoolExecutor(2) as pool:
    print(list(pool.map(math.sqrt, [1, 4])))
for method in "fork", "spawn", "forkserver":
    with multiprocessing.get_context(method).Pool(2) as pool:
        print(method, pool.map(math.sqrt, [9, 16]), pool.apply(os.getcwd) == os.getcwd())
#: what is its own in a child
def child(queue):
    queue.put((os.getppid(), __name__, x))
x = 7
queue = multiprocessing.get_context("fork").Queue()
process = multiprocessing.get_context("fork").Process(target=child, args=(queue,))
process.start()
parent, name, value = queue.get()
process.join()
parent == os.getpid(), name, value, process.exitcode
#: processes
import subprocess
print(subprocess.run(["sh", "-c", "echo out; echo err >&2; exit 3"], capture_output=True, text=True))
print(subprocess.run([sys.executable, "-c", "import sys; print(sys.argv, sys.path[0])"], capture_output=True, text=True).stdout)
print(subprocess.run(["sh", "-c", "ls /proc/self/fd | wc -l; ulimit -c; cat"], capture_output=True, text=True).stdout)
#: a fork
pid = os.fork()
if pid == 0:
    print("child", os.getppid() == os.getpgid(0), flush=True)
    os._exit(3)
os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
#: nobody else's children
os.waitpid(-1, os.WNOHANG)
#: await
import asyncio
print(await asyncio.gather(*(asyncio.sleep(0, n) for n in range(3))))
process = await asyncio.create_subprocess_exec("echo", "hi", stdout=subprocess.PIPE)
(await process.communicate())[0]
#: garbage
import gc, weakref
class Kept: pass
kept = Kept()
seen = weakref.ref(kept)
gc.isenabled(), gc.get_threshold(), seen() is kept
#: it is gone
del kept
gc.collect() >= 0, seen()
#: the end of an interpreter is not now
import atexit
atexit.register(print, "at the end") is print
#: the locale
import locale, time
print(locale.getlocale(), sys.getfilesystemencoding(), time.tzname, locale.getpreferredencoding())
#: modules
import csv, decimal, pickle, statistics, tempfile
print(json.__spec__.name, csv.__file__, pickle.loads(pickle.dumps({1: Kept})), statistics.mean([1, 3]))
print(tempfile.gettempdir() == os.environ.get("TMPDIR"), decimal.Decimal(1) / 3)
#: a module beside it
open("beside.py", "w").write("import __main__\nVALUE = __main__.x\n")
import beside
beside.VALUE, beside.__file__ == os.path.join(os.getcwd(), "beside.py")
#: a class that is pickled
pickle.loads(pickle.dumps(Kept())).__class__ is Kept
#: source
import inspect
inspect.getsource(outer)
#: display
display({"a": 1}, "text")
print(display.__doc__, display.__module__)
#: builtins
import builtins
print(sorted(builtins.__dict__))
print(exit, quit, type(help))
#: leaving
exit(4)
#: packages that were not imported
[it for it in ("pandas", "matplotlib", "dateutil", "PIL") if it in sys.modules]
#: data of a package that is not imported
import pkgutil
len(pkgutil.get_data("dateutil", "__init__.py"))
#: numbers
import numpy as np
np.arange(3).sum(), np.show_config is not None, np.geterr(), np.get_printoptions()["precision"]
#: tables
import pandas as pd
frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
print(frame.groupby("a").size(), pd.get_option("display.max_rows"))
frame
#: what a package needs
[it for it in ("numpy", "pandas.core.frame", "dateutil", "matplotlib", "PIL") if it in sys.modules]
#: looking for a package
import importlib.util
spec = importlib.util.find_spec("matplotlib")
print(spec.name, spec.origin, "matplotlib" in sys.modules)
print(pd.__spec__.name, pd.__spec__.origin == pd.__file__, type(pd.__loader__).__name__, type(pd.__spec__.loader).__name__)
pickle.loads(pickle.dumps(frame)).equals(frame)
#: plots
import matplotlib, matplotlib.pyplot as plt
print(matplotlib.get_backend(), plt.get_fignums(), matplotlib.rcParams["figure.figsize"], plt.isinteractive())
_ = plt.plot([1, 2])
#: saved
_ = plt.bar(["a"], [2])
plt.savefig("bar.png")
os.path.exists("bar.png")
#: future
from __future__ import annotations
def hinted(a: Missing): return a
hinted.__annotations__
#: profiles
sys.setrecursionlimit(2000)
import cProfile
profile = cProfile.Profile()
profile.enable(); profile.disable()
