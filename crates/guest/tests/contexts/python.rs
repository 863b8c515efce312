//! What a context of Python shows: values, displays, figures, tables, exceptions.

use serde_json::json;

use crate::{
    guest::TestGuest,
    support::{json, py, python, run, wish},
};

#[tokio::test]
async fn variables_stay_and_the_last_expression_is_shown() {
    let guest = TestGuest::start().await;
    let first = py(&guest, "x = 41\nprint('hello')").await;
    assert_eq!(
        (first.stdout().as_str(), first.outcome.exit_code),
        ("hello\n", 0)
    );
    assert_eq!((first.value(), first.results.len()), (None, 0));
    assert!(first.context().created);
    let second = py(&guest, "import os\nx += 1\nx").await;
    assert_eq!((second.value(), second.stdout().as_str()), (Some("42"), ""));
    assert!(!second.context().created);
    for (code, value) in [
        ("_ + 1", Some("43")),
        ("'text'", Some("'text'")),
        ("x;", None),
        ("None", None),
        ("x = 7", None),
        ("def f():\n    return x\nf()", Some("7")),
        ("[f() for _ in range(2)]", Some("[7, 7]")),
        ("__name__", Some("'__main__'")),
        (
            "import asyncio\nawait asyncio.sleep(0.001)\nawait asyncio.sleep(0, x)",
            Some("7"),
        ),
        ("", None),
        ("# nothing", None),
    ] {
        assert_eq!(py(&guest, code).await.value(), value, "{code}");
    }
}

#[tokio::test]
async fn a_value_is_shown_in_all_its_forms() {
    let guest = TestGuest::start().await;
    let code = "class Rich:
    def __repr__(self): return 'rich'
    def _repr_html_(self): return '<b>rich</b>'
    def _repr_svg_(self): return '<svg/>'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'a': 1}
    def _repr_png_(self): return b'png'
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'application/vnd.plotly.v1+json': {'data': []}}
display(1, 'two')
Rich()";
    let ran = py(&guest, code).await;
    assert_eq!(ran.results.len(), 3);
    assert_eq!(ran.results[0]["text/plain"], "1");
    assert_eq!(ran.main_result, Some(2));
    let rich = &ran.results[2];
    assert_eq!(rich["text/plain"], "rich");
    assert_eq!(rich["text/html"], "<b>rich</b>");
    assert_eq!(rich["image/svg+xml"], "<svg/>");
    assert_eq!(rich["text/latex"], "$x$");
    assert_eq!(rich["image/png"], "cG5n");
    assert_eq!(json(&rich["application/json"]), serde_json::json!({"a": 1}));
    assert_eq!(
        json(&rich["application/vnd.plotly.v1+json"]),
        serde_json::json!({"data": []})
    );
}

#[tokio::test]
async fn a_frame_is_html_and_a_table_when_it_is_displayed() {
    let guest = TestGuest::start().await;
    let ran = py(
        &guest,
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\ndf",
    )
    .await;
    assert!(ran.results[0]["text/html"].contains("<table"), "{ran:?}");
    assert!(ran.results[0]["text/plain"].contains("0  1"));
    assert!(ran.artifacts().is_empty());
    let ran = py(&guest, "display(df)").await;
    assert!(ran.results[0]["text/html"].contains("<table"));
    assert_eq!(ran.artifacts()[0].kind, "table");
}

#[tokio::test]
async fn open_figures_are_shown_at_the_end_of_each_run() {
    let guest = TestGuest::start().await;
    let ran = py(
        &guest,
        "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])",
    )
    .await;
    assert!(ran.results[0]["image/png"].starts_with("iVBOR"), "{ran:?}");
    assert_eq!((ran.results.len(), ran.main_result), (1, None));
    assert_eq!(ran.artifacts()[0].kind, "plot");
    // It was closed: the next run has none.
    let ran = py(&guest, "plt.get_fignums()").await;
    assert_eq!((ran.value(), ran.artifacts().len()), (Some("[]"), 0));
    let ran = py(
        &guest,
        "plt.plot([3]); plt.show(); plt.plot([1]); plt.savefig('a.png')",
    )
    .await;
    assert_eq!(ran.results.len(), 2);
    let names: Vec<_> = ran.artifacts().iter().map(|a| a.name.as_str()).collect();
    assert_eq!(names, ["figure-2.png", "a.png"]);
    // As the value of an expression, it is not shown twice.
    let ran = py(&guest, "fig, ax = plt.subplots(); ax.plot([1]); fig").await;
    assert_eq!((ran.results.len(), ran.main_result), (1, Some(0)));
    assert!(ran.results[0].contains_key("image/png"));
    assert_eq!(ran.artifacts().len(), 1);
}

#[tokio::test]
async fn files_that_a_run_makes_are_its_artifacts() {
    let guest = TestGuest::start().await;
    let ran = py(&guest, "open('a.csv', 'w').write('a\\n1\\n'); None").await;
    assert_eq!(ran.artifacts()[0].path, "a.csv");
    for n in 0..20 {
        let ran = py(&guest, &format!("open('b{n}.csv', 'w').write('x'); None")).await;
        let paths: Vec<_> = ran.artifacts().iter().map(|a| a.path.clone()).collect();
        assert_eq!(paths, [format!("b{n}.csv")]);
        assert!(py(&guest, "1").await.artifacts().is_empty());
    }
}

#[tokio::test]
async fn an_exception_is_told_in_its_parts_and_keeps_the_state() {
    let guest = TestGuest::start().await;
    let ran = py(&guest, "y = 1\ndef f():\n    return 1 / 0\nf()").await;
    assert_eq!(ran.error(), ("ZeroDivisionError", "division by zero"));
    assert_eq!((ran.outcome.exit_code, ran.stderr().as_str()), (1, ""));
    let traceback = ran.outcome.raised.as_ref().unwrap().traceback.clone();
    assert!(traceback.contains("return 1 / 0"), "{traceback}");
    assert!(!traceback.contains("context.py"), "{traceback}");
    assert_eq!(ran.loss(), None);
    assert_eq!(py(&guest, "y").await.value(), Some("1"));
    let ran = py(&guest, "x = 1\nx = = 2").await;
    assert_eq!(ran.error().0, "SyntaxError");
    let ran = py(&guest, "import sys\nsys.exit(3)").await;
    assert_eq!(
        (ran.error(), ran.outcome.exit_code),
        (("SystemExit", "3"), 3)
    );
    let ran = py(&guest, "raise KeyboardInterrupt").await;
    assert_eq!(ran.error().0, "KeyboardInterrupt");
    let ran = py(
        &guest,
        "class Bad(Exception):\n    def __str__(self): 1/0\nraise Bad",
    )
    .await;
    assert_eq!(ran.error().0, "Bad");
    assert_eq!(py(&guest, "y").await.value(), Some("1"));
}

#[tokio::test]
async fn its_input_is_empty_and_what_it_starts_prints_too() {
    let guest = TestGuest::start().await;
    assert_eq!(py(&guest, "input()").await.error().0, "EOFError");
    let ran = py(
        &guest,
        "import os, sys\nos.system('echo out; echo err >&2; cat')",
    )
    .await;
    assert_eq!(
        (ran.stdout().as_str(), ran.stderr().as_str()),
        ("out\n", "err\n")
    );
    let ran = py(&guest, "import subprocess\nsubprocess.run(['ls', '-l', '/proc/self/fd'], capture_output=True, text=True).stdout.count('pipe:')").await;
    // Its own two: the channel is nobody else's.
    assert_eq!(ran.value(), Some("2"), "{ran:?}");
}

#[tokio::test]
async fn what_comes_between_two_runs_belongs_to_the_next() {
    let guest = TestGuest::start().await;
    py(&guest, "import threading, time\ndef late():\n    time.sleep(0.3)\n    print('x' * 200_000)\n    display('late')\nthreading.Thread(target=late).start()").await;
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    let ran = py(&guest, "print('now')").await;
    let out = ran.stdout();
    assert!(
        out.contains("xxx") && out.ends_with("now\n"),
        "{}",
        out.len()
    );
    assert!(ran.outcome.stdout.truncated());
    assert_eq!(ran.outcome.stdout.total_bytes(), 200_005);
    assert_eq!(ran.results[0]["text/plain"], "late");
}

#[tokio::test]
async fn without_artifacts_it_displays_all_the_same() {
    let guest = TestGuest::start().await;
    let request = sandbox_core::RunRequest {
        artifacts: None,
        ..wish(
            &python(),
            "bare",
            "import matplotlib.pyplot as plt\ndisplay(1)\nplt.plot([1])",
        )
    };
    let ran = run(&guest, request).await;
    assert_eq!(ran.results.len(), 3);
    assert!(ran.results[2].contains_key("image/png"));
}

const CHART: &str = "application/vnd.sandboxd.chart+json";
const DATA: &str = "application/vnd.sandboxd.data+json";

/// What the only display of the code has of a MIME type.
async fn told(guest: &TestGuest, code: &str, mime: &str) -> serde_json::Value {
    let ran = py(guest, code).await;
    assert_eq!(ran.stderr(), "", "{code}");
    assert_eq!(ran.results.len(), 1, "{code}: {:?}", ran.results);
    ran.results[0]
        .get(mime)
        .map_or(json!(null), |text| json(text))
}

#[tokio::test]
async fn a_figure_has_its_data_besides() {
    let guest = TestGuest::start().await;
    py(&guest, "import matplotlib.pyplot as plt").await;
    let chart = told(
        &guest,
        "_ = plt.plot([1, 2], [3, float('nan')], label='a')\n_ = plt.title('T')\n_ = plt.xlabel('time (s)')",
        CHART,
    )
    .await;
    assert_eq!(
        (
            &chart["type"],
            &chart["title"],
            &chart["x_label"],
            &chart["x_unit"],
            &chart["x_scale"]
        ),
        (
            &json!("line"),
            &json!("T"),
            &json!("time (s)"),
            &json!("s"),
            &json!("linear")
        )
    );
    assert_eq!(
        chart["elements"],
        json!([{"label": "a", "points": [[1, 3.0], [2, null]]}])
    );
    assert!(chart["y_ticks"].as_array().unwrap().len() > 1);
    for (code, kind, elements) in [
        (
            "_ = plt.scatter(['a', 'b'], [1, 2])",
            "scatter",
            json!([{"label": "Scatter 0", "points": [["a", 1.0], ["b", 2.0]]}]),
        ),
        (
            "_ = plt.bar(['x', 'y'], [1, 2], label='g')\nplt.show()",
            "bar",
            json!([{"label": "x", "group": "g", "value": 1}, {"label": "y", "group": "g", "value": 2}]),
        ),
        (
            "_ = plt.pie([1, 3], labels=['p', 'q'])",
            "pie",
            json!([{"label": "p", "angle": 90.0, "radius": 1}, {"label": "q", "angle": 270.0, "radius": 1}]),
        ),
        (
            "_ = plt.boxplot([[1, 2, 3, 4, 20]])",
            "box_and_whisker",
            json!([{"label": "1", "min": 1.0, "first_quartile": 2.0, "median": 3.0,
                    "third_quartile": 4.0, "max": 4.0, "outliers": [20.0]}]),
        ),
        (
            "_ = plt.boxplot([[1, 2, 3, 4, 20]], patch_artist=True, vert=False)",
            "box_and_whisker",
            json!([{"label": "1", "min": 1.0, "first_quartile": 2.0, "median": 3.0,
                    "third_quartile": 4.0, "max": 4.0, "outliers": [20.0]}]),
        ),
        (
            "_ = plt.imshow([[1, 2]])\n_ = plt.colorbar()",
            "unknown",
            json!([]),
        ),
    ] {
        let chart = told(&guest, code, CHART).await;
        assert_eq!(
            (&chart["type"], &chart["elements"]),
            (&json!(kind), &elements),
            "{code}"
        );
    }
    let code = "figure, (left, right) = plt.subplots(1, 2)\n_ = left.plot([1, 2]); _ = right.bar(['u'], [1])\n_ = figure.suptitle('S')";
    let chart = told(&guest, code, CHART).await;
    assert_eq!(
        (
            &chart["type"],
            &chart["title"],
            &chart["elements"][1]["type"]
        ),
        (&json!("superchart"), &json!("S"), &json!("bar"))
    );
    // Too much of it is left out, and so is what fails.
    assert_eq!(
        told(&guest, "_ = plt.plot(range(10000))", CHART).await,
        json!(null)
    );
    let code = "_ = plt.plot([1])\ndef fails(): raise ValueError\nplt.gca().get_title = fails";
    assert_eq!(told(&guest, code, CHART).await, json!(null));
}

#[tokio::test]
async fn a_table_has_its_columns_besides() {
    let guest = TestGuest::start().await;
    let code = "import pandas as pd\npd.DataFrame({'a': [1, None], 3: ['x', pd.NaT], 'd': pd.to_datetime(['2024-01-01', None])})";
    let columns = json!({"a": [1.0, null], "3": ["x", null], "d": ["2024-01-01T00:00:00", null]});
    assert_eq!(told(&guest, code, DATA).await, columns);
    assert_eq!(told(&guest, "display(_)", DATA).await, columns);
    let code = "pd.DataFrame({'a': range(100000)})";
    assert_eq!(told(&guest, code, DATA).await, json!(null));
}

#[tokio::test]
async fn nothing_is_loaded_before_there_is_data_to_tell() {
    let guest = TestGuest::start().await;
    let code = "import gc, sys\nlen([m for m in gc.get_objects() if isinstance(m, dict) and 'MAX_CHARTS' in m])";
    assert_eq!(py(&guest, code).await.value(), Some("0"));
}
