"""Shows what a program displays: each item is a JSON file, and the files that it
names, in a folder that is watched."""

import functools
import io
import itertools
import json
import os
import sys
import time
import weakref

FOLDER = globals().get("FOLDER")

PREVIEW_ROWS = 20
MAX_COLUMNS = 500
MAX_CELL = 500
MAX_PREVIEW = 200_000
MAX_TEXT = 256 * 1024
# In base64, and of a context: of other programs they are files.
MAX_PICTURE = 700_000

# Takes bundles in the place of the folder; set by a context.
sink = None
# Gives the data of a figure or a table as more MIME types; set by a context.
more_of = None

_items = itertools.count()
_figures = itertools.count(1)
_images = itertools.count(1)
_tables = itertools.count(1)
_pages = itertools.count(1)
_process = os.getpid()

# By the figure: the picture of it that was shown last, and whether it was saved.
_shown = weakref.WeakKeyDictionary()
_saved = weakref.WeakSet()


def _stem():
    return f"{time.time_ns():020d}-{os.getpid()}-{next(_items)}"


def _put(item, stem=None):
    if not FOLDER:
        return
    stem = stem or _stem()
    fresh = os.path.join(FOLDER, "." + stem)
    with io.open(fresh, "w", encoding="utf-8", errors="replace") as file:
        json.dump(item, file, allow_nan=False)
    # Whole from the first moment that it can be seen.
    os.rename(fresh, os.path.join(FOLDER, stem + ".json"))


def _say(what, error):
    try:
        sys.stderr.write(f"{what} could not be shown: {error}\n")
    except Exception:
        pass


def _put_file(kind, name, data):
    if not FOLDER:
        return
    stem = _stem()
    file = stem + os.path.splitext(name)[1]
    with io.open(os.path.join(FOLDER, file), "wb") as out:
        out.write(data)
    _put({"type": kind, "name": name, "file": file}, stem)


def display(*objects, raw=False, **_options):
    for thing in objects:
        try:
            if raw and isinstance(thing, dict):
                _put_bundle(thing)
            else:
                _display(thing)
        except OSError as error:
            # No space is left, or the folder is gone: that is no reason to stop.
            _say("an object", error)


def _is(thing, module, *names):
    """Whether it is an instance of a class that need not be loaded."""
    module = sys.modules.get(module)
    classes = [getattr(module, name, None) for name in names]
    return any(isinstance(cls, type) and isinstance(thing, cls) for cls in classes)


def _display(thing):
    if _is(thing, "pandas", "DataFrame", "Series"):
        _put_table(thing)
        if sink is not None:
            _put_bundle({**_bundle(thing), **_more(thing)})
    elif _is(thing, "matplotlib.figure", "Figure"):
        _put_figure(thing)
    elif _is(thing, "PIL.Image", "Image"):
        _put_image(thing)
    else:
        _put_bundle(_bundle(thing))


def result_of(thing):
    """What a context shows of the value of its last expression."""
    if _is(thing, "matplotlib.figure", "Figure"):
        data = _figure_png(thing)
        if _is_news(thing, data):
            _put_file("plot", f"figure-{next(_figures)}.png", data)
        return _texts(_picture(thing, data))
    bundle = {**_bundle(thing), **_more(thing)}
    if isinstance(thing, str):
        bundle["text/plain"] = repr(thing)
    return _texts(bundle)


def _more(thing):
    is_figure = _is(thing, "matplotlib.figure", "Figure")
    if more_of is None or not (is_figure or _is(thing, "pandas", "DataFrame")):
        return {}
    try:
        return more_of(thing, is_figure)
    except Exception:
        # What is shown is shown without its data.
        return {}


# Tables


def _put_table(frame):
    if not FOLDER:
        return
    import pandas

    if isinstance(frame, pandas.Series):
        frame = frame.to_frame()
    frame = _with_index(frame, pandas)
    number = next(_tables)
    stem = _stem()
    item = {"type": "table", "name": f"table-{number}.csv", "csv": stem + ".csv"}
    frame.to_csv(os.path.join(FOLDER, item["csv"]), index=False)
    parquet = _parquet(frame, stem)
    if parquet is not None:
        item["parquet"] = parquet
    item["table"] = _describe(frame)
    _put(item, stem)


def _with_index(frame, pandas):
    """The frame with its index, unless that only counts, as columns, and all
    names as text."""
    plain = isinstance(frame.index, pandas.RangeIndex)
    if plain and frame.index.start == 0 and frame.index.step == 1 and frame.index.name is None:
        frame = frame.copy(deep=False)
    else:
        index = frame.index.to_frame(index=False)
        levels = len(index.columns)
        index.columns = [
            ("index" if levels == 1 else f"level_{level}") if name is None else name
            for level, name in enumerate(frame.index.names)
        ]
        columns = frame.reset_index(drop=True)
        columns.columns = [_text(name) for name in columns.columns]
        frame = pandas.concat([index, columns], axis=1)
    seen = {}
    names = []
    for name in map(_text, frame.columns):
        count = seen.get(name, 0)
        seen[name] = count + 1
        names.append(f"{name}.{count}" if count else name)
    frame.columns = names
    return frame


def _text(name):
    if isinstance(name, tuple):
        return ".".join(str(part) for part in name if part != "")
    return str(name)


def _parquet(frame, stem):
    import importlib.util

    if importlib.util.find_spec("pyarrow") is None:
        return None
    name = stem + ".parquet"
    path = os.path.join(FOLDER, name)
    try:
        frame.to_parquet(path, engine="pyarrow", index=False)
    except Exception:
        # Not every column can be written so.
        try:
            os.unlink(path)
        except OSError:
            pass
        return None
    return name


def _describe(frame):
    names = list(frame.columns)[:MAX_COLUMNS]
    head = frame.iloc[:PREVIEW_ROWS, :MAX_COLUMNS]
    try:
        rows = json.loads(head.to_json(orient="values", date_format="iso", default_handler=str))
    except Exception:
        rows = [[str(cell) for cell in row] for row in head.itertuples(index=False, name=None)]
    preview = [dict(zip(names, map(_short, row))) for row in rows]
    while len(json.dumps(preview)) > MAX_PREVIEW:
        preview.pop()
    return {
        "schema": [
            {"name": name[:MAX_CELL], "dtype": str(dtype)[:MAX_CELL]}
            for name, dtype in zip(names, frame.dtypes)
        ],
        "columns_total": len(frame.columns),
        "rows_total": len(frame),
        "preview": preview,
    }


def _short(cell):
    if isinstance(cell, (dict, list)):
        cell = json.dumps(cell)
    if isinstance(cell, str) and len(cell) > MAX_CELL:
        return cell[:MAX_CELL] + "..."
    return cell


# Pictures


def _put_image(image):
    if image.mode not in ("1", "L", "LA", "I", "P", "RGB", "RGBA"):
        image = image.convert("RGB")
    data = io.BytesIO()
    image.save(data, format="PNG")
    data = data.getvalue()
    _put_file("image", f"image-{next(_images)}.png", data)
    if sink is not None:
        _put_bundle(_picture(image, data))


def _picture(thing, data):
    return {"image/png": data, "text/plain": repr(thing), **_more(thing)}


def _put_figure(figure):
    data = _figure_png(figure)
    if _is_news(figure, data):
        _put_file("plot", f"figure-{next(_figures)}.png", data)
        if sink is not None:
            _put_bundle(_picture(figure, data))


def _is_news(figure, data):
    """Whether this is not the picture of it that was shown last."""
    # Slow to load, and whoever has a figure has it.
    import hashlib

    digest = hashlib.sha256(data).digest()
    is_news = _shown.get(figure) != digest
    _shown[figure] = digest
    return is_news


def _figure_png(figure):
    import warnings

    from matplotlib.figure import Figure

    # Not of a class of its own, and not ours.
    save = getattr(Figure.savefig, "__wrapped__", Figure.savefig)
    data = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(figure, data, format="png", bbox_inches="tight")
    return data.getvalue()


def show_open_figures():
    """At the end of a run in a context: what is left open is shown and closed."""
    if "matplotlib.pyplot" not in sys.modules:
        return
    from matplotlib._pylab_helpers import Gcf

    managers = sorted(Gcf.get_all_fig_managers(), key=lambda manager: manager.num)
    try:
        for figure in [manager.canvas.figure for manager in managers]:
            if len(figure.get_children()) <= 1:
                continue
            if figure in _saved and not figure.stale:
                # It is a file already.
                data = _figure_png(figure)
                if _is_news(figure, data):
                    sink(_texts(_picture(figure, data)))
            else:
                _put_figure(figure)
    finally:
        Gcf.destroy_all()


def before_pyplot():
    """Nothing can be looked at here: other backends are not even tried, unless one
    was chosen."""
    try:
        import matplotlib

        chosen = dict.__getitem__(matplotlib.rcParams, "backend")
        if chosen is matplotlib.rcsetup._auto_backend_sentinel:
            matplotlib.rcParams["backend"] = "agg"
    except (AttributeError, KeyError):
        pass


def after_pyplot(pyplot):
    import atexit

    import matplotlib
    from matplotlib._pylab_helpers import Gcf
    from matplotlib.figure import Figure

    # What savefig saves after show, as it does where show changes nothing.
    last = []

    def can_show():
        backend = matplotlib.get_backend().lower()
        return backend not in ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")

    def show_all(figures):
        for figure in figures:
            try:
                _put_figure(figure)
            except OSError as error:
                _say("a figure", error)

    def open_figures():
        managers = sorted(Gcf.get_all_fig_managers(), key=lambda manager: manager.num)
        return [manager.canvas.figure for manager in managers]

    plain_show = pyplot.show

    @functools.wraps(plain_show)
    def show(*args, **kwargs):
        if can_show():
            show_all(open_figures())
            return plain_show(*args, **kwargs)
        if kwargs.get("block", True) is False:
            # It may be drawn on: it is shown when the program ends.
            return None
        show_all(open_figures())
        active = Gcf.get_active()
        if active is not None:
            last[:] = [active.canvas.figure]
        # As where their windows are closed: what is plotted next is another figure.
        pyplot.close("all")
        return None

    plain_pyplot_savefig = pyplot.savefig

    @functools.wraps(plain_pyplot_savefig)
    def pyplot_savefig(*args, **kwargs):
        if last and Gcf.get_active() is None:
            return last[0].savefig(*args, **kwargs)
        return plain_pyplot_savefig(*args, **kwargs)

    plain_figure_show = Figure.show

    @functools.wraps(plain_figure_show)
    def figure_show(self, *args, **kwargs):
        show_all([self])
        if can_show():
            return plain_figure_show(self, *args, **kwargs)
        return None

    plain_savefig = Figure.savefig

    @functools.wraps(plain_savefig)
    def savefig(self, fname, *args, **kwargs):
        result = plain_savefig(self, fname, *args, **kwargs)
        if isinstance(fname, (str, os.PathLike)):
            try:
                _note_saved(self, os.fsdecode(fname), kwargs.get("format"))
            except Exception:
                pass
        return result

    def _note_saved(figure, path, form):
        if not os.path.exists(path):
            path += "." + (form or matplotlib.rcParams["savefig.format"])
        _put({"type": "saved", "path": os.path.abspath(path)})
        _saved.add(figure)
        # It becomes stale again when it is changed.
        figure.stale = False

    def at_exit():
        # A forked child has the figures of its parent.
        if os.getpid() != _process:
            return
        for figure in open_figures():
            is_empty = len(figure.get_children()) <= 1
            if is_empty or (figure in _saved and not figure.stale):
                continue
            try:
                _put_figure(figure)
            except Exception as error:
                _say("a figure that was left open", error)

    pyplot.show = show
    pyplot.savefig = pyplot_savefig
    Figure.show = figure_show
    Figure.savefig = savefig
    atexit.register(at_exit)


# All else


_BY_METHOD = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
    ("_repr_latex_", "text/latex"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_pdf_", "application/pdf"),
)


def _bundle(thing):
    bundle = {}
    # A class has the methods of its instances, and cannot be called so.
    if not isinstance(thing, type):
        whole = _call(thing, "_repr_mimebundle_")
        if isinstance(whole, tuple):
            whole = whole[0]
        if isinstance(whole, dict):
            bundle.update(whole)
        for method, mime in _BY_METHOD:
            if mime not in bundle:
                data = _call(thing, method)
                if isinstance(data, tuple):
                    data = data[0]
                if data is not None:
                    bundle[mime] = data
    if "text/plain" not in bundle:
        bundle["text/plain"] = thing if isinstance(thing, str) else repr(thing)
    return bundle


def _call(thing, method):
    try:
        method = getattr(thing, method, None)
        return method() if callable(method) else None
    except Exception:
        return None


def _put_bundle(bundle):
    small = _texts(bundle)
    if not small:
        return
    if sink is not None:
        sink(small)
    else:
        _put({"type": "display", "bundle": small})


def _texts(bundle):
    """A bundle as texts, none of them large."""
    import base64

    small = {}
    for mime, data in bundle.items():
        if isinstance(data, (bytes, bytearray)):
            data = base64.b64encode(data).decode()
        elif not isinstance(data, str):
            data = json.dumps(data, default=str)
        is_picture = sink is not None and str(mime).startswith(("image/", "application/pdf"))
        if len(data) <= (MAX_PICTURE if is_picture else MAX_TEXT):
            small[str(mime)] = data
        elif mime == "text/html":
            # A page with all its scripts, for example.
            page = data.encode("utf-8", "replace")
            _put_file("file", f"page-{next(_pages)}.html", page)
        elif mime == "text/plain":
            small[mime] = data[:MAX_TEXT] + "..."
    return small
