# Imported by the interpreter at its start, in the place of a module of the same
# name, if there is one: it leaves no trace and hands on to that. The rest, in
# display.py, is loaded when it is used.


def _start():
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.environ.pop("SANDBOX_DISPLAY", None)
    # Programs that are started by this one are not ours to change.
    first, _, rest = os.environ.get("PYTHONPATH", "").partition(":")
    if os.path.abspath(first) == here:
        if rest:
            os.environ["PYTHONPATH"] = rest
        else:
            del os.environ["PYTHONPATH"]
    sys.path[:] = [path for path in sys.path if path != here]
    sys.path_importer_cache.pop(here, None)
    if folder is None:
        return

    def load():
        import importlib.util

        name = "_sandbox_display"
        if name not in sys.modules:
            file = os.path.join(here, "display.py")
            spec = importlib.util.spec_from_file_location(name, file)
            module = importlib.util.module_from_spec(spec)
            module.FOLDER = folder
            spec.loader.exec_module(module)
            sys.modules.setdefault(name, module)
        return sys.modules[name]

    _install(load)


_start()
del _start, _install

# Not found is what the interpreter expects where there is none.
import sys  # noqa: E402

del sys.modules[__name__]
import sitecustomize  # noqa: E402,F401
