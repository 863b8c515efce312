"""The data behind what a context shows: of a figure its charts, of a table its columns.

Both are more MIME types of the same display. Loaded when the first figure or table is
shown; what cannot be told, or is too much, is left out."""

import datetime
import decimal
import json
import math
import re
import sys

CHART = "application/vnd.sandboxd.chart+json"
DATA = "application/vnd.sandboxd.data+json"

# Of all charts of a figure, and of all cells of a table.
MAX_POINTS = 5_000
MAX_CELLS = 20_000
MAX_CHARTS = 20
MAX_TEXT = 500

_unit = re.compile(r"\s\(([^()]*)\)|\[([^\[\]]*)\]")
_number = re.compile(r"_(?:child|container)(\d+)")


class _TooMuch(Exception):
    pass


def more_of(thing, is_figure):
    """What a bundle gets besides."""
    kind, told = (CHART, _chart(thing)) if is_figure else (DATA, _columns(thing))
    return {} if told is None else {kind: json.dumps(told, allow_nan=False)}


def _plain(value):
    """A value as JSON has it."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        # A date of numpy's may have no date of Python's.
        is_date = getattr(getattr(value, "dtype", None), "kind", "") in ("M", "m")
        value = str(value) if is_date else value.item()
    if value is None or isinstance(value, (bool, str)):
        return value[:MAX_TEXT] if isinstance(value, str) else value
    if isinstance(value, int):
        return (
            value
            if abs(value) < 1 << 53
            else float(value) if abs(value) < 1 << 1000 else str(value)[:MAX_TEXT]
        )
    if isinstance(value, (float, decimal.Decimal)):
        value = float(value)
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.date, datetime.time)):
        # NaT is one of them.
        return value.isoformat() if value == value else None
    pandas = sys.modules.get("pandas")
    if pandas is not None and value is getattr(pandas, "NA", pandas):
        return None
    return str(value)[:MAX_TEXT]


# Tables


def _columns(frame):
    if frame.size > MAX_CELLS:
        return None
    columns = {}
    for position, name in enumerate(frame.columns):
        values = frame.iloc[:, position].tolist()
        columns[str(name)[:MAX_TEXT]] = [_plain(value) for value in values]
    return columns


# Charts


def _chart(figure):
    # Colour bars are axes too.
    shown = [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and _has_any(axes)]
    if not shown or len(shown) > MAX_CHARTS:
        return None
    room = [MAX_POINTS]
    try:
        charts = [_chart_of(axes, room) for axes in shown]
    except _TooMuch:
        return None
    if len(charts) == 1:
        return charts[0]
    title = getattr(figure, "_suptitle", None)
    title = title.get_text() if title is not None else ""
    return {"type": "superchart", "title": title or None, "elements": charts}


def _has_any(axes):
    return bool(axes.lines or axes.patches or axes.collections or axes.images or axes.containers)


def _chart_of(axes, room):
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.patches import Wedge

    def count(more):
        room[0] -= more
        if room[0] < 0:
            raise _TooMuch

    wedges = [patch for patch in axes.patches if isinstance(patch, Wedge)]
    bars = [it for it in axes.containers if isinstance(it, BarContainer)]
    scatters = [it for it in axes.collections if isinstance(it, PathCollection)]
    title = axes.get_title() or None
    if wedges:
        count(len(wedges))
        return {"type": "pie", "title": title, "elements": [_slice(wedge) for wedge in wedges]}
    boxes = [] if bars else _boxes(axes, count)
    if boxes:
        elements, is_upright = boxes
        return {
            "type": "box_and_whisker",
            "title": title,
            **_labels(axes, is_upright),
            "elements": elements,
        }
    if bars:
        elements = []
        for container in bars:
            count(len(container))
            elements += _bars(axes, container)
        return {
            "type": "bar",
            "title": title,
            **_labels(axes, _is_upright(bars[0])),
            "elements": elements,
        }
    if scatters:
        kind, elements = "scatter", [_dots(axes, dots, count) for dots in scatters]
    elif axes.lines:
        kind, elements = "line", [_line(line, count) for line in axes.lines]
    else:
        return {"type": "unknown", "title": title, "elements": []}
    chart = {"type": kind, "title": title, **_labels(axes, True)}
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        chart.update(_axis(name, axis))
    chart["elements"] = elements
    return chart


def _labels(axes, is_upright):
    """Of bars and boxes that lie, x is where they stand all the same."""
    labels = [axes.get_xlabel() or None, axes.get_ylabel() or None]
    units = [_unit_of(label) for label in labels]
    if not is_upright:
        labels.reverse()
        units.reverse()
    return {"x_label": labels[0], "y_label": labels[1], "x_unit": units[0], "y_unit": units[1]}


def _unit_of(label):
    found = _unit.search(label or "")
    return (found.group(1) or found.group(2) or None) if found else None


def _name(artist, word):
    """What it is called; a number where it was not given a name."""
    label = str(artist.get_label())
    found = _number.fullmatch(label)
    return f"{word} {found.group(1)}" if found else label[:MAX_TEXT]


# Axes


def _converter(axis):
    get = getattr(axis, "get_converter", None)
    return get() if get is not None else axis.converter


def _is_date(axis):
    return "DateConverter" in type(_converter(axis)).__name__


def _place(axis, value):
    """A number on an axis, as what it stands for."""
    if _is_date(axis):
        from matplotlib.dates import num2date

        return num2date(value).replace(tzinfo=None).isoformat()
    mapping = getattr(getattr(axis, "units", None), "_mapping", None)
    if mapping:
        for category, number in mapping.items():
            if number == value:
                return str(category)[:MAX_TEXT]
    return _plain(value)


def _axis(name, axis):
    ticks = list(axis.get_ticklocs())[:MAX_CELLS]
    labels = [label.get_text()[:MAX_TEXT] for label in axis.get_ticklabels()]
    if _is_date(axis):
        scale = "datetime"
        ticks = [_place(axis, tick) for tick in ticks]
    else:
        is_category = getattr(getattr(axis, "units", None), "_mapping", None)
        scale = "categorical" if is_category else axis.get_scale()
        ticks = [_plain(tick) for tick in ticks]
    return {f"{name}_ticks": ticks, f"{name}_tick_labels": labels, f"{name}_scale": scale}


def _positions(axis):
    """What is written at each tick."""
    return list(zip(axis.get_ticklocs(), [label.get_text() for label in axis.get_ticklabels()]))


def _written_at(axis, positions, value):
    """What the axis says at this place."""
    for tick, text in positions:
        if text and abs(tick - value) < 1e-9:
            return text[:MAX_TEXT]
    return str(_place(axis, round(value, 6)))


# Their elements


def _line(line, count):
    xs, ys = line.get_xdata(), line.get_ydata()
    count(len(xs))
    return {
        "label": _name(line, "Line"),
        "points": [[_plain(x), _plain(y)] for x, y in zip(xs, ys)],
    }


def _dots(axes, dots, count):
    offsets = dots.get_offsets()
    count(len(offsets))
    points = [
        [_place(axes.xaxis, x), _place(axes.yaxis, y)] for x, y in offsets.tolist() if x is not None
    ]
    return {"label": _name(dots, "Scatter"), "points": points}


def _is_upright(container):
    return getattr(container, "orientation", None) != "horizontal"


def _bars(axes, container):
    is_upright = _is_upright(container)
    axis = axes.xaxis if is_upright else axes.yaxis
    positions = _positions(axis)
    group = _name(container, "Group")
    # Bars of a group stand beside their common label.
    texts = [text for _, text in positions if text]
    is_named = type(axis.get_major_locator()).__name__ == "FixedLocator"
    in_order = texts if is_named and len(texts) == len(container) else None
    bars = []
    for index, bar in enumerate(container):
        if is_upright:
            middle, value = bar.get_x() + bar.get_width() / 2, bar.get_height()
        else:
            middle, value = bar.get_y() + bar.get_height() / 2, bar.get_width()
        label = in_order[index] if in_order else _written_at(axis, positions, float(middle))
        bars.append({"label": label, "group": group, "value": _plain(value)})
    return bars


def _slice(wedge):
    angle = abs(float(wedge.theta2) - float(wedge.theta1))
    return {"label": _name(wedge, "Slice"), "angle": round(angle, 4), "radius": _plain(wedge.r)}


# Boxes: matplotlib keeps no word of them, only lines


def _outline(artist):
    """The corners of what may be a box, if it is closed."""
    if hasattr(artist, "get_xydata"):
        corners = artist.get_xydata().tolist()
    else:
        corners = artist.get_path().vertices.tolist()
    is_closed = len(corners) >= 5 and (
        corners[0] == corners[-1] or corners[0] == corners[-2] or corners[-1] == [0.0, 0.0]
    )
    if not is_closed:
        return None
    corners = corners[:-1]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    return (min(xs), max(xs)), (min(ys), max(ys))


def _boxes(axes, count):
    """Elements, and whether they stand; nothing unless all lines belong to boxes."""
    from matplotlib.patches import PathPatch

    lines = [line for line in axes.lines if line.get_xydata() is not None]
    patches = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    outlines = patches or [
        line for line in lines if len(line.get_xydata()) >= 5 and line.get_linestyle() != "None"
    ]
    outlines = [box for box in map(_outline, outlines) if box is not None]
    if not outlines or len(outlines) > MAX_CELLS:
        return None
    pairs = [line.get_xydata().tolist() for line in lines if len(line.get_xydata()) == 2]
    for is_upright in (True, False):
        place, value = (0, 1) if is_upright else (1, 0)
        elements = []
        for box in outlines:
            (left, right), (low, high) = box[place], box[value]
            inside = [
                pair
                for pair in pairs
                if all(left - 1e-9 <= point[place] <= right + 1e-9 for point in pair)
            ]
            levels = [
                pair[0][value]
                for pair in inside
                if pair[0][value] == pair[1][value] and pair[0][place] != pair[1][place]
            ]
            whiskers = [pair for pair in inside if pair[0][place] == pair[1][place]]
            ends = [point[value] for pair in whiskers for point in pair]
            median = [level for level in levels if low <= level <= high]
            if not whiskers or not median or min(ends) > low or max(ends) < high:
                break
            middle = (left + right) / 2
            outliers = []
            for line in lines:
                points = line.get_xydata().tolist()
                if (
                    line.get_linestyle() == "None"
                    and points
                    and all(abs(p[place] - middle) < 1e-9 for p in points)
                ):
                    count(len(points))
                    outliers += [_plain(point[value]) for point in points]
            # A cap may lie on the box itself.
            caps = {min(ends), max(ends)}
            between = [level for level in median if level not in caps] or median
            elements.append(
                (
                    middle,
                    {
                        "min": _plain(min(ends)),
                        "first_quartile": _plain(low),
                        "median": _plain(between[0]),
                        "third_quartile": _plain(high),
                        "max": _plain(max(ends)),
                        "outliers": outliers,
                    },
                )
            )
        if len(elements) == len(outlines):
            axis = axes.xaxis if is_upright else axes.yaxis
            positions = _positions(axis)
            return [
                {"label": _written_at(axis, positions, middle), **element}
                for middle, element in elements
            ], is_upright
    return None
