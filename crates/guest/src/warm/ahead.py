"""Packages that were imported ahead, put aside until the program imports them.

An interpreter that lives for long may install another version of one, or find a module
of its name, before it imports it: then that is what it gets, as if nothing had been
there. Else it gets what there is, with all that this had imported.
"""

import builtins
import importlib
import os
import sys
import warnings

_OF_PACKAGES = ("/site-packages", "/dist-packages")
# What reads its settings when it is imported, and in Python: the threads of numpy's
# libraries cannot be had anew.
_READER = "matplotlib"
_READ = ("MPL", "MATPLOTLIB")


def _settings():
    set_now = {name: value for name, value in os.environ.items() if name.startswith(_READ)}
    return set_now, os.path.exists("matplotlibrc")


class Ahead:
    def __init__(self, started_with):
        self._started_with = started_with
        # What each package has imported.
        self._needs = {}
        # The modules of each that is put aside, by their names.
        self.packages = {}
        # Those that have been given.
        self._given = {}
        self._origins = {}
        # Filters of warnings that each has added.
        self._filters = {}

    def load(self, name):
        """Imports a module, and notes what that imports."""
        plain = builtins.__import__

        def noting(name, globals=None, locals=None, fromlist=(), level=0):
            if level == 0 and globals:
                self._note(_package(globals.get("__name__") or ""), _package(name))
            return plain(name, globals, locals, fromlist, level)

        before = set(sys.modules)
        filters = list(warnings.filters)
        builtins.__import__ = noting
        try:
            importlib.import_module(name)
        finally:
            builtins.__import__ = plain
            # Not all imports come by there.
            for other in set(sys.modules) - before:
                self._note(_package(name), _package(other))
            added = [it for it in warnings.filters if it not in filters]
            self._filters.setdefault(_package(name), []).extend(added)

    def _note(self, name, needed):
        self._needs.setdefault(name, set()).add(needed)

    def look(self):
        """Finds out what can be put aside, and where that was found."""
        self._filters_before = list(warnings.filters)
        for added in self._filters.values():
            _filter(added)
        for name, module in list(sys.modules.items()):
            package = _package(name)
            top = sys.modules.get(package)
            if package in self._started_with or not _is_installed(top):
                continue
            self.packages.setdefault(package, {})[name] = module
            if package not in self._origins:
                self._origins[package] = _origin(top.__spec__)

    def hide(self, replaced):
        """`replaced` is told of a package that is imported anew."""
        if not self.packages:
            return
        self._replaced = replaced
        self._settings = _settings()
        warnings.filters[:] = []
        _filter(self._filters_before)
        for package, modules in self.packages.items():
            self._give_instead_of_executing(package, modules[package])
            for name in modules:
                sys.modules.pop(name, None)
        sys.meta_path.insert(0, self)

    def _give_instead_of_executing(self, name, module):
        def create_module(_spec):
            self._give(name)
            return module

        # It stays so: threads that import the same take one another's specs.
        loader = module.__spec__.loader
        loader.create_module = create_module
        loader.exec_module = lambda module: None

    def find_spec(self, name, path=None, target=None):
        if name in self._given and target is None:
            # Another thread has got it just now; else it is to be loaded anew.
            module = sys.modules.get(name)
            return module.__spec__ if module is self._given[name] else None
        if name not in self.packages:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                break
        else:
            return None
        # It may be given to another thread meanwhile.
        module = self.packages.get(name, self._given)[name]
        is_as_set = _READER not in self._with_needs(name) or _settings() == self._settings
        if is_as_set and _origin(spec) == self._origins[name]:
            return module.__spec__
        self.packages.pop(name, None)
        self._replaced(name)
        return None

    def _give(self, name):
        """Has the package, and all that it needs, among the modules."""
        for name in self._with_needs(name):
            modules = self.packages.get(name)
            if modules is None:
                continue
            # Itself the last: who sees it takes all of it to be there.
            for module in sorted(modules, key=len, reverse=True):
                sys.modules.setdefault(module, modules[module])
            self._given[name] = modules[name]
            self.packages.pop(name, None)
            _filter(self._filters.pop(name, ()))

    def _with_needs(self, name):
        """It, and what would come with it."""
        names = [name]
        for name in names:
            needs = self._needs.get(name, ())
            names += [it for it in needs if it in self.packages and it not in names]
        return names


def _filter(added):
    warnings.filters[:0] = added
    warnings._filters_mutated()


def _package(name):
    return name.partition(".")[0]


def _is_installed(module):
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    if not hasattr(loader, "__dict__"):
        return False
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
