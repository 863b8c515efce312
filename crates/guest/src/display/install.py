def _install(load):
    """Lets programs display; `load` gives the module that shows."""
    import builtins
    import sys

    def display(*objects, **options):
        """Shows objects beside what the program prints."""
        load().display(*objects, **options)

    class PyplotHook:
        """Sees the import of matplotlib.pyplot, once."""

        @classmethod
        def find_spec(cls, name, path=None, target=None):
            if name != "matplotlib.pyplot":
                return None
            sys.meta_path.remove(cls)
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find else None
                if spec is not None:
                    break
            else:
                return None
            loader = spec.loader
            plain = loader.exec_module

            def exec_module(module):
                del loader.exec_module
                load().before_pyplot()
                plain(module)
                load().after_pyplot(module)

            loader.exec_module = exec_module
            return spec

    display.load = load
    builtins.display = display
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        sys.meta_path.insert(0, PyplotHook)
    else:
        load().after_pyplot(pyplot)
    return PyplotHook
