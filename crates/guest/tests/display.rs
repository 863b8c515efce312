//! What Python programs display, with the real matplotlib and pandas.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{fs, os::unix::fs::symlink, time::Duration};

use guest_client::{Collected, RunEvent};
use sandbox_core::{Artifact, ArtifactLimits, RunOutcome, RunRequest, Termination};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use support::{TestGuest, python, until};

const LIMITS: ArtifactLimits = ArtifactLimits {
    max_files: 50,
    max_file_bytes: 8 << 20,
    max_total_bytes: 32 << 20,
};
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

fn displaying(source: &'static str) -> RunRequest {
    RunRequest {
        python_display: true,
        artifacts: Some(LIMITS),
        ..python(source)
    }
}

/// How a run ended and what it displayed.
async fn shown(guest: &TestGuest, request: RunRequest) -> (RunOutcome, Vec<Value>) {
    let mut run = guest.client.run(request).await.unwrap();
    let mut collected = Collected::within(1 << 20);
    let mut bundles = Vec::new();
    loop {
        match run.next().await.unwrap().unwrap() {
            RunEvent::Ended(end) => {
                let left = fs::read_dir(guest.workspace.path().join(".sandbox/runs")).unwrap();
                assert_eq!(left.count(), 0, "the folder of the run is removed");
                return (collected.ended(end), bundles);
            }
            RunEvent::Display(bundle) => bundles.push(serde_json::from_str(&bundle).unwrap()),
            event => collected.add(&event),
        }
    }
}

/// Runs what is expected to print nothing on standard error.
async fn artifacts(guest: &TestGuest, source: &'static str) -> Vec<Artifact> {
    let (outcome, _) = shown(guest, displaying(source)).await;
    assert_eq!(
        (outcome.stderr.to_text().as_str(), outcome.exit_code),
        ("", 0)
    );
    for artifact in &outcome.artifacts {
        let data = fs::read(guest.workspace.path().join(&artifact.stored_path)).unwrap();
        let hash: String = Sha256::digest(&data)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(artifact.sha256, hash);
        if artifact.mime_type == "image/png" {
            assert!(data.starts_with(PNG) && data.len() > 500);
        }
    }
    outcome.artifacts
}

fn kinds(artifacts: &[Artifact]) -> Vec<(&str, &str)> {
    artifacts
        .iter()
        .map(|artifact| (artifact.name.as_str(), artifact.kind.as_str()))
        .collect()
}

#[tokio::test]
async fn a_figure_that_is_shown_becomes_a_plot() {
    let guest = TestGuest::start().await;
    let made = artifacts(
        &guest,
        "import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.show()",
    )
    .await;
    assert_eq!(kinds(&made), [("figure-1.png", "plot")]);
    assert_eq!(made[0].path, made[0].stored_path);
}

#[tokio::test]
async fn figures_that_are_left_open_become_plots() {
    let guest = TestGuest::start().await;
    let made = artifacts(
        &guest,
        "import matplotlib
matplotlib.use('Agg')
from matplotlib import pyplot as plt
fig, axes = plt.subplots(2)
axes[0].plot([1, 2])
plt.figure()
plt.hist([1, 1, 2])
plt.figure()
closed = plt.figure(); plt.plot([5]); plt.close(closed)",
    )
    .await;
    // One was empty and one was closed.
    assert_eq!(
        kinds(&made),
        [("figure-1.png", "plot"), ("figure-2.png", "plot")]
    );
    assert_ne!(made[0].sha256, made[1].sha256);
}

#[tokio::test]
async fn figures_shown_one_after_the_other_are_apart() {
    let guest = TestGuest::start().await;
    let made = artifacts(
        &guest,
        "import matplotlib.pyplot as plt
for n in range(3):
    plt.plot([1, 2, 3])
    plt.show()
plt.savefig('after.png')",
    )
    .await;
    assert_eq!(
        kinds(&made),
        [
            ("figure-1.png", "plot"),
            ("figure-2.png", "plot"),
            ("figure-3.png", "plot"),
            ("after.png", "plot")
        ]
    );
    // Nothing of the one before is in the next.
    assert_eq!(made[0].sha256, made[2].sha256);
    assert_eq!(made[3].path, "after.png");
    assert!(made[3].size_bytes > 5000, "not an empty one");
}

#[tokio::test]
async fn a_figure_that_the_program_saved_is_not_kept_twice() {
    let guest = TestGuest::start().await;
    let made = artifacts(
        &guest,
        "import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.savefig('a'); plt.savefig('a.svg'); plt.savefig('a.pdf')
plt.figure(); plt.plot([3]); plt.savefig('b.png'); plt.title('changed')
plt.figure(); plt.plot([4]); display(plt.gcf())
open('c.png', 'wb').write(open('a.png', 'rb').read())",
    )
    .await;
    let mut made = kinds(&made);
    made.sort_unstable();
    assert_eq!(
        made,
        [
            ("a.pdf", "plot"),
            ("a.png", "plot"),
            ("a.svg", "plot"),
            ("b.png", "plot"),
            ("c.png", "image"),
            ("figure-1.png", "plot"),
            ("figure-2.png", "plot"),
        ]
    );
}

#[tokio::test]
async fn a_frame_becomes_a_table() {
    let guest = TestGuest::start().await;
    let made = artifacts(
        &guest,
        "import pandas as pd
df = pd.DataFrame({'n': range(50), 'x': [i / 2 for i in range(50)], 'name': ['ä\\n'] * 50})
df.loc[1, 'x'] = float('nan')
display(df)",
    )
    .await;
    assert_eq!(kinds(&made)[0], ("table-1.csv", "table"));
    assert_eq!(made[0].mime_type, "text/csv");
    let csv = fs::read_to_string(guest.workspace.path().join(&made[0].stored_path)).unwrap();
    assert!(csv.starts_with("n,x,name\n0,0.0,\"ä\n\"\n1,,"), "{csv:.60}");
    let table: Value = serde_json::from_str(made[0].table.as_ref().unwrap()).unwrap();
    assert_eq!(
        table["schema"],
        json!([
            {"name": "n", "dtype": "int64"},
            {"name": "x", "dtype": "float64"},
            {"name": "name", "dtype": "object"},
        ])
    );
    assert_eq!(
        (&table["rows_total"], &table["columns_total"]),
        (&json!(50), &json!(3))
    );
    let preview = table["preview"].as_array().unwrap();
    assert_eq!(preview.len(), 20);
    assert_eq!(preview[1], json!({"n": 1, "x": null, "name": "ä\n"}));
    assert_eq!(
        table["formats"][0],
        json!({
            "format": "csv",
            "id": made[0].id,
            "mime_type": "text/csv",
            "size_bytes": made[0].size_bytes,
        })
    );
}

#[tokio::test]
async fn frames_of_all_shapes_become_tables() {
    let guest = TestGuest::start().await;
    let made = artifacts(
        &guest,
        "import pandas as pd, numpy as np
display(pd.Series([1, 2], index=['a', 'b'], name='s'))
wide = pd.DataFrame(np.zeros((3, 2000)))
display(wide)
twice = pd.DataFrame([[1, 2]], columns=['a', 'a'])
display(twice)
display(pd.DataFrame({'a': [1, 2], 'b': [3, 4], 'c': [5, 6]}).groupby(['a', 'b']).agg({'c': ['sum', 'mean']}))
display(pd.DataFrame())
display(pd.DataFrame({'o': [{'k': 1}, [1, 2], object]}))
display(pd.DataFrame({'t': pd.to_datetime(['2024-01-02'])}))
display(pd.DataFrame({'long': ['x' * 100000] * 20}))
assert list(wide.columns)[:2] == [0, 1] and list(twice.columns) == ['a', 'a']",
    )
    .await;
    let tables: Vec<Value> = made
        .iter()
        .filter_map(|artifact| serde_json::from_str(artifact.table.as_ref()?).ok())
        .collect();
    assert_eq!(tables.len(), 8);
    assert_eq!(
        tables[0]["preview"],
        json!([{"index": "a", "s": 1}, {"index": "b", "s": 2}])
    );
    assert_eq!(tables[1]["schema"].as_array().unwrap().len(), 500);
    assert_eq!(tables[1]["columns_total"], 2000);
    assert_eq!(tables[2]["preview"], json!([{"a": 1, "a.1": 2}]));
    assert_eq!(
        tables[3]["preview"][0],
        json!({"a": 1, "b": 3, "c.sum": 5, "c.mean": 5.0})
    );
    assert_eq!(tables[4]["rows_total"], 0);
    assert_eq!(tables[5]["rows_total"], 3);
    assert_eq!(tables[6]["preview"][0]["t"], "2024-01-02T00:00:00.000");
    assert!(
        made.iter()
            .all(|a| a.table.as_ref().unwrap().len() < 250_000)
    );
}

#[tokio::test]
async fn each_format_of_a_table_is_kept() {
    let guest = TestGuest::start().await;
    // As the interpreter describes it where there is pyarrow.
    let made = artifacts(
        &guest,
        r#"import glob, json, os
folder, = glob.glob('.sandbox/runs/*')
os.chdir(folder)
open('1.csv', 'w').write('a\n1\n'); open('1.parquet', 'wb').write(b'PAR1...PAR1')
table = {'schema': [{'name': 'a', 'dtype': 'int64'}], 'columns_total': 1, 'rows_total': 1,
         'preview': [{'a': n} for n in range(100)]}
item = {'type': 'table', 'name': 't.csv', 'csv': '1.csv', 'parquet': '1.parquet', 'table': table}
open('t', 'w').write(json.dumps(item)); os.rename('t', '1.json')"#,
    )
    .await;
    assert_eq!(kinds(&made), [("t.csv", "table"), ("t.parquet", "table")]);
    let table: Value = serde_json::from_str(made[0].table.as_ref().unwrap()).unwrap();
    assert_eq!(table["preview"].as_array().unwrap().len(), 20);
    let formats = table["formats"].as_array().unwrap();
    assert_eq!(
        formats[1],
        json!({
            "format": "parquet",
            "id": made[1].id,
            "mime_type": "application/vnd.apache.parquet",
            "size_bytes": 11,
        })
    );
    assert_eq!((formats.len(), &made[1].table), (2, &None));
}

#[tokio::test]
async fn objects_are_shown_as_they_can_be() {
    let guest = TestGuest::start().await;
    let (outcome, bundles) = shown(
        &guest,
        displaying(
            "class Page:
    def _repr_html_(self): return '<b>page</b>'
    def __repr__(self): return 'a page'
class Bundle:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'application/json': {'a': 1}, 'text/plain': 'bundle', 'image/png': b'abc'}, {}
class Broken:
    def _repr_html_(self): raise ValueError
    def __repr__(self): return 'broken'
class Large:
    def _repr_html_(self): return '<p>' * 200_000
    def __repr__(self): return 'x' * 300_000
display('text', 3)
display(Page()); display(Page); display(Bundle()); display(Broken()); display(Large())
display({'text/plain': 'raw'}, raw=True)
display()",
        ),
    )
    .await;
    assert_eq!(outcome.stderr.to_text(), "");
    assert_eq!(bundles.len(), 8);
    assert_eq!(bundles[0], json!({"text/plain": "text"}));
    assert_eq!(bundles[1], json!({"text/plain": "3"}));
    assert_eq!(
        bundles[2],
        json!({"text/html": "<b>page</b>", "text/plain": "a page"})
    );
    assert_eq!(bundles[3], json!({"text/plain": "<class '__main__.Page'>"}));
    assert_eq!(
        bundles[4],
        json!({"application/json": "{\"a\": 1}", "text/plain": "bundle", "image/png": "YWJj"})
    );
    assert_eq!(bundles[5], json!({"text/plain": "broken"}));
    assert_eq!(bundles[6]["text/plain"].as_str().unwrap().len(), 262_147);
    assert_eq!(bundles[7], json!({"text/plain": "raw"}));
    // What is too large for an event is a page.
    assert_eq!(kinds(&outcome.artifacts), [("page-1.html", "report")]);
}

#[tokio::test]
async fn a_picture_is_shown_as_one() {
    let guest = TestGuest::start().await;
    let made = artifacts(
        &guest,
        "from PIL import Image
display(Image.effect_noise((64, 64), 50))
display(Image.new('CMYK', (200, 200), 'red').resize((400, 400)))",
    )
    .await;
    assert_eq!(
        kinds(&made),
        [("image-1.png", "image"), ("image-2.png", "image")]
    );
}

#[tokio::test]
async fn what_is_displayed_comes_while_the_program_runs() {
    let guest = TestGuest::start().await;
    let request = displaying(
        "import os, time
display('first')
while not os.path.exists('go'): time.sleep(0.01)
display('second')",
    );
    let mut run = guest.client.run(request).await.unwrap();
    // The program waits for this, so it has not ended.
    let first = run.next().await.unwrap().unwrap();
    assert_eq!(first, RunEvent::Display(r#"{"text/plain":"first"}"#.into()));
    fs::write(guest.workspace.path().join("go"), "").unwrap();
    let second = run.next().await.unwrap().unwrap();
    assert_eq!(
        second,
        RunEvent::Display(r#"{"text/plain":"second"}"#.into())
    );
}

/// Prints what a program can see of how it was started.
const LOOK: &str = "import sys, os, subprocess, traceback
print(sys.argv[1:], sys.path[1:], sys.flags, __name__, __builtins__.__name__)
print(sorted(os.environ.items()))
print(sorted(name for name in sys.modules if name not in ('_sandbox_display',)))
print(os.listdir('/proc/self/fd')[:4], getattr(sys.modules.get('sitecustomize'), '__file__', None))
look = 'import os, sys; print(sys.path, sorted(os.environ), \"display\" in dir(__builtins__))'
print(subprocess.run([sys.executable, '-c', look], capture_output=True, text=True).stdout)
import atexit
atexit.register(print, 'at exit')
try:
    import no_such_module
except ImportError:
    print(traceback.format_exc().replace(__file__, 'FILE'))
def fail(): raise ValueError('last')
sys.stdin.read()
fail()";

#[tokio::test]
async fn a_program_is_not_otherwise_changed() {
    let guest = TestGuest::start().await;
    let with_env = |mut request: RunRequest, env: &[(&str, &str)]| {
        for (name, value) in env {
            request.env.insert((*name).into(), (*value).into());
        }
        request.program.argv.push("argument".into());
        request
    };
    for env in [&[][..], &[("PYTHONPATH", "/opt/a:/opt/b")]] {
        let plain = guest.run(with_env(python(LOOK), env)).await;
        let (shown, _) = shown(&guest, with_env(displaying(LOOK), env)).await;
        assert!(plain.stdout.to_text().contains("at exit"));
        assert_eq!(plain.stdout.to_text(), shown.stdout.to_text());
        assert_eq!((plain.exit_code, shown.exit_code), (1, 1));
        // The script's name has a random part.
        let without_name = |outcome: &RunOutcome| {
            let text = outcome.stderr.to_text();
            text.split('"')
                .step_by(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert!(plain.stderr.to_text().contains("ValueError: last"));
        assert_eq!(without_name(&plain), without_name(&shown));
    }
}

#[tokio::test]
async fn a_sitecustomize_of_somebody_else_is_found() {
    let guest = TestGuest::start().await;
    let modules = tempfile::tempdir().unwrap();
    fs::write(
        modules.path().join("sitecustomize.py"),
        "import sys; sys.theirs = __file__",
    )
    .unwrap();
    let path = modules.path().to_str().unwrap();
    let mut request = displaying("import sys; display(sys.theirs)");
    request.env.insert("PYTHONPATH".into(), path.into());
    let (_, bundles) = shown(&guest, request).await;
    let theirs = format!("{path}/sitecustomize.py");
    assert_eq!(bundles, [json!({"text/plain": theirs})]);
}

#[tokio::test]
async fn a_fork_or_a_failure_shows_no_figure_twice() {
    let guest = TestGuest::start().await;
    let (outcome, _) = shown(
        &guest,
        displaying(
            "import matplotlib.pyplot as plt, os, sys
plt.plot([1, 2])
if os.fork() == 0:
    sys.exit(0)
os.wait()
raise SystemExit(7)",
        ),
    )
    .await;
    assert_eq!(outcome.exit_code, 7);
    assert_eq!(kinds(&outcome.artifacts), [("figure-1.png", "plot")]);
}

#[tokio::test]
async fn what_a_program_plants_is_read_as_from_a_stranger() {
    let guest = TestGuest::start().await;
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    symlink(
        outside.path().join("secret"),
        guest.workspace.path().join("secret"),
    )
    .unwrap();
    let (outcome, bundles) = shown(
        &guest,
        displaying(
            r#"import os, json, glob
folder, = glob.glob('.sandbox/runs/*')
os.chdir(folder)
n = 0
def put(item):
    global n
    n += 1
    text = item if isinstance(item, str) else json.dumps(item)
    open('.t', 'w').write(text); os.rename('.t', f'0{n:04}.json')
os.symlink('../../../secret', 'link.png')
os.mkfifo('fifo.png')
os.mkdir('dir.json'); os.mkfifo('fifo.json'); os.symlink('/etc/passwd', 'link.json')
open('page.png', 'w').write('<script>')
open('huge.png', 'w').truncate(1 << 40)
for file in ('link.png', 'fifo.png', '../../../secret', '', '.', 'none', 'huge.png', '\0', 'x' * 5000):
    put({'type': 'plot', 'name': 'n.png', 'file': file})
put({'type': 'plot', 'name': '../../e\nvil.png', 'file': 'page.png'})
put({'type': 'display', 'bundle': {'text/plain': 'x' * (3 << 19)}})
put({'type': 'display', 'bundle': {'text/plain': 1}})
put({'type': 'saved', 'path': '/etc/passwd'}); put({'type': 'saved', 'path': '../..'})
put('[' * 100000); put('{'); put(' ' * (3 << 20)); put('null')
display('end')"#,
        ),
    )
    .await;
    assert_eq!(
        (outcome.exit_code, outcome.stderr.to_text()),
        (0, String::new())
    );
    assert_eq!(bundles, [json!({"text/plain": "end"})]);
    assert_eq!(kinds(&outcome.artifacts), [("_.._.._e_vil.png", "file")]);
    assert_eq!(outcome.artifacts[0].mime_type, "application/octet-stream");
    assert_eq!(outcome.artifacts_omitted, 9);
}

#[tokio::test]
async fn items_without_end_are_bounded() {
    let guest = TestGuest::start().await;
    let (outcome, bundles) = shown(
        &guest,
        displaying("for n in range(2500): display(n)\nprint('end')"),
    )
    .await;
    assert_eq!(bundles.len(), 2000);
    assert_eq!(bundles[1999], json!({"text/plain": "1999"}));
    assert_eq!(outcome.stdout.to_text(), "end\n");
}

#[tokio::test]
async fn a_folder_that_is_gone_stops_nobody() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .run(displaying(
            "import shutil; shutil.rmtree('.sandbox'); display(1); print('end')",
        ))
        .await;
    assert_eq!(outcome.stdout.to_text(), "end\n");
    assert!(outcome.stderr.to_text().contains("could not be shown"));
    assert_eq!(outcome.termination, Termination::Exited);
    // Where none can be had the run goes on, too.
    let _ = fs::remove_dir_all(guest.workspace.path().join(".sandbox"));
    fs::write(guest.workspace.path().join(".sandbox"), "").unwrap();
    let outcome = guest.run(displaying("print('end')")).await;
    assert_eq!(outcome.stdout.to_text(), "end\n");
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_no_folder() {
    let guest = TestGuest::start().await;
    let request = displaying("display(1)\nimport time\ntime.sleep(1000)");
    let mut run = guest.client.run(request).await.unwrap();
    run.next().await.unwrap();
    drop(run);
    let runs = guest.workspace.path().join(".sandbox/runs");
    until("the folder is gone", || {
        fs::read_dir(&runs).unwrap().count() == 0
    })
    .await;
}

#[tokio::test]
async fn a_table_beyond_the_limits_is_counted() {
    let guest = TestGuest::start().await;
    let request = RunRequest {
        artifacts: Some(ArtifactLimits {
            max_file_bytes: 1000,
            ..LIMITS
        }),
        timeout: Duration::from_secs(20),
        ..displaying(
            "import pandas as pd
display(pd.DataFrame({'a': range(10000)}))
display(pd.DataFrame({'a': range(10)}))",
        )
    };
    let (outcome, _) = shown(&guest, request).await;
    assert_eq!(kinds(&outcome.artifacts), [("table-2.csv", "table")]);
    assert!(outcome.artifacts_omitted >= 1);
}
