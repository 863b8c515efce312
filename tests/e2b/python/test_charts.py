"""Figures and tables as data."""

import pytest
from conftest import decoded
from e2b_code_interpreter.charts import (
    BarChart,
    BoxAndWhiskerChart,
    LineChart,
    PieChart,
    ScatterChart,
    SuperChart,
)

pytestmark = pytest.mark.local


def drawn(code, lines):
    """The one figure that the lines leave, and its chart."""
    execution = code.run_code(f"import matplotlib.pyplot as plt\n{lines}\nplt.show()")
    assert execution.error is None, execution.error
    (result,) = [it for it in execution.results if it.png]
    assert decoded(result.png)[:8] == b"\x89PNG\r\n\x1a\n"
    assert result.chart is not None, result
    return result.chart


def test_lines(code):
    chart = drawn(
        code,
        "plt.plot([1, 2, 3], [1.5, 4, 9], label='a')\nplt.plot([1, 2, 3], [3, 2, 1], label='b')\n"
        "plt.title('Lines')\nplt.xlabel('Time (s)')\nplt.ylabel('Height (m)')\nplt.legend()",
    )
    assert isinstance(chart, LineChart)
    assert (chart.title, chart.type.value) == ("Lines", "line")
    assert (chart.x_label, chart.y_label) == ("Time (s)", "Height (m)")
    assert (chart.x_unit, chart.y_unit) == ("s", "m")
    assert [it.label for it in chart.elements] == ["a", "b"]
    assert chart.elements[0].points == [(1, 1.5), (2, 4), (3, 9)]
    assert chart.x_scale.value == "linear" and chart.x_ticks and chart.x_tick_labels


def test_dates_and_logarithms(code):
    chart = drawn(
        code,
        "import datetime\ndays = [datetime.date(2026, 1, d) for d in (1, 2, 3)]\n"
        "plt.plot(days, [1, 10, 100])\nplt.yscale('log')",
    )
    assert isinstance(chart, LineChart)
    assert (chart.x_scale.value, chart.y_scale.value) == ("datetime", "log")
    assert str(chart.elements[0].points[0][0]).startswith("2026-01-01")


def test_points(code):
    chart = drawn(code, "plt.scatter([1, 2], [3, 4], label='s')\nplt.title('Points')")
    assert isinstance(chart, ScatterChart)
    assert (chart.title, chart.elements[0].label) == ("Points", "s")
    assert chart.elements[0].points == [(1, 3), (2, 4)]


def test_bars(code):
    chart = drawn(code, "plt.bar(['a', 'b', 'c'], [1, 2.5, 3], label='g')\nplt.ylabel('n')")
    assert isinstance(chart, BarChart)
    assert [(it.label, float(it.value)) for it in chart.elements] == [("a", 1), ("b", 2.5), ("c", 3)]
    assert {it.group for it in chart.elements} == {"g"}


def test_a_pie(code):
    chart = drawn(code, "plt.pie([1, 3], labels=['x', 'y'])\nplt.title('Pie')")
    assert isinstance(chart, PieChart)
    assert [it.label for it in chart.elements] == ["x", "y"]
    assert [round(it.angle) for it in chart.elements] == [90, 270]
    assert all(it.radius == 1 for it in chart.elements)


def test_boxes(code):
    chart = drawn(code, "plt.boxplot([[1, 2, 3, 4, 5], [2, 3, 4, 5, 30]])")
    assert isinstance(chart, BoxAndWhiskerChart)
    first, second = chart.elements
    assert (first.min, first.first_quartile, first.median) == (1, 2, 3)
    assert (first.third_quartile, first.max, first.outliers) == (4, 5, [])
    assert second.outliers == [30]


def test_several_charts_in_one_figure(code):
    chart = drawn(
        code,
        "fig, (a, b) = plt.subplots(1, 2)\na.plot([1], [1])\na.set_title('left')\n"
        "b.bar(['x'], [1])\nb.set_title('right')\nfig.suptitle('Both')",
    )
    assert isinstance(chart, SuperChart)
    assert chart.title == "Both"
    assert [type(it) for it in chart.elements] == [LineChart, BarChart]
    assert [it.title for it in chart.elements] == ["left", "right"]


def test_a_figure_that_is_no_chart_is_an_image(code):
    execution = code.run_code("plt.imshow([[1, 2], [3, 4]])\nplt.show()")
    assert any(it.png for it in execution.results) and execution.error is None


def test_a_table_has_its_data(code):
    execution = code.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', None]})")
    (result,) = execution.results
    assert result.data == {"a": [1, 2], "b": ["x", None]}
    assert "<table" in result.html and "x" in result.text


def test_infinities_are_still_json(code):
    chart = drawn(code, "plt.plot([1, 2, 3], [1, float('nan'), float('inf')])")
    assert isinstance(chart, LineChart)
    execution = code.run_code("pd.DataFrame({'a': [float('inf'), float('nan')]})")
    assert execution.error is None and execution.results
