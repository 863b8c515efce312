"""Packages that were imported ahead, put aside until the program imports them.

An interpreter that lives for long may install another version of one, or find a module
of its name, before it imports it: then that is what it gets, as if nothing had been
there. Else it gets what there is, with all that this had imported.
"""

import builtins
import importlib
import os
import sys

_OF_PACKAGES = ("/site-packages", "/dist-packages")


class _Loader:
    """Gives a package that is there, instead of executing it."""

    def __init__(self, ahead, module, loader):
        self._ahead = ahead
        self._module = module
        self._loader = loader

    def __getattr__(self, name):
        # Whoever looks at a package without importing it.
        return getattr(self._loader, name)

    def create_module(self, _spec):
        self._spec = self._module.__spec__
        return self._module

    def exec_module(self, module):
        module.__spec__ = self._spec
        self._ahead.give(module.__name__)


class Ahead:
    def __init__(self, started_with):
        self._started_with = started_with
        # What each package has imported.
        self._needs = {}
        # The modules of each that is put aside, by their names.
        self.packages = {}
        self._origins = {}

    def load(self, name):
        """Imports a module, and notes what that imports."""
        plain = builtins.__import__

        def noting(name, globals=None, locals=None, fromlist=(), level=0):
            if level == 0 and globals:
                self._note(_package(globals.get("__name__") or ""), _package(name))
            return plain(name, globals, locals, fromlist, level)

        before = set(sys.modules)
        builtins.__import__ = noting
        try:
            importlib.import_module(name)
        finally:
            builtins.__import__ = plain
            # Not all imports come by there.
            for other in set(sys.modules) - before:
                self._note(_package(name), _package(other))

    def _note(self, name, needed):
        self._needs.setdefault(name, set()).add(needed)

    def look(self):
        """Finds out what can be put aside, and where that was found."""
        for name, module in list(sys.modules.items()):
            package = _package(name)
            if name in self._started_with or package not in sys.modules:
                continue
            if package in self._origins or _is_installed(sys.modules[package]):
                self.packages.setdefault(package, {})[name] = module
                self._origins[package] = _origin(sys.modules[package].__spec__)

    def hide(self, replaced):
        """`replaced` is told of a package that is imported anew."""
        if not self.packages:
            return
        self._replaced = replaced
        for modules in self.packages.values():
            for name in modules:
                sys.modules.pop(name, None)
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self.packages:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                break
        else:
            return None
        if _origin(spec) == self._origins[name]:
            spec.loader = _Loader(self, self.packages[name][name], spec.loader)
            return spec
        del self.packages[name]
        self._replaced(name)
        return None

    def give(self, name):
        """Has the package, and all that it needs, among the modules."""
        names = [name]
        for name in names:
            needs = self._needs.get(name, ())
            names += [it for it in needs if it in self.packages and it not in names]
        for name in names:
            # Another thread may have got it meanwhile.
            for module, value in self.packages.pop(name, {}).items():
                sys.modules.setdefault(module, value)


def _package(name):
    return name.partition(".")[0]


def _is_installed(module):
    paths = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(part in path for path in paths if path for part in _OF_PACKAGES)


def _origin(spec):
    """Where it is found, and which file that is."""
    origin = getattr(spec, "origin", None)
    if origin is None:
        return list(getattr(spec, "submodule_search_locations", None) or ())
    try:
        found = os.stat(origin)
    except OSError:
        return [origin]
    return [origin, found.st_ino, found.st_mtime_ns, found.st_size]
