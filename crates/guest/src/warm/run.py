def _start():
    """As a zygote; returns in a child that knows what to run."""
    options = json.loads(sys.argv[1])
    control = os.dup(0)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    child = serve(control, preload(options["modules"], options["display"]))
    child.wait()
    return child


# Out here, so that the program has as little as may be below it.
_child = _start()
_error = None
_compiled = None
_loaded = frozenset(sys.modules)
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
    _finish(_loaded)
except Exception:
    # Output that cannot be written, mostly: the interpreter knows what to say.
    sys.exit(_exit & 0xFF)
if _exit == _INTERRUPTED:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
if os.getpid() == _child.pid:
    _done(_child, _exit)
os._exit(_exit)
