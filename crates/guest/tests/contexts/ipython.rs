//! A context of Python where IPython is installed.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use sandbox_core::{ContextLoss, RunRequest, Termination};

use crate::{
    guest::TestGuest,
    support::{Ran, python, run, wish, within},
};

/// Its modules, of PyPI.
fn folder() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("contexts-venv");
    let made = Command::new(tests.join("openapi/venv.sh"))
        .env("PYTHON", "/usr/bin/python3")
        .arg(&venv)
        .arg(tests.join("contexts/requirements.txt"))
        .status()
        .unwrap();
    assert!(made.success());
    let mut versions = std::fs::read_dir(venv.join("lib")).unwrap();
    versions
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("site-packages")
}

/// A guest whose Python finds it beside the system's own modules.
async fn guest() -> TestGuest {
    let guest =
        TestGuest::preloading("numpy,matplotlib.pyplot,IPython.core.interactiveshell").await;
    let folder = folder();
    let install = format!(
        "d=$(/usr/bin/python3 -m site --user-site); mkdir -p $d; echo {} > $d/ipython.pth",
        folder.display()
    );
    assert_eq!(guest.bash(&install).await.exit_code, 0);
    guest.get_warm().await;
    guest
}

async fn ipy(guest: &TestGuest, code: &str) -> Ran {
    run(guest, wish(&python(), "main", code)).await
}

#[tokio::test]
async fn it_is_used_with_its_magics() {
    let guest = guest().await;
    let ran = ipy(&guest, "get_ipython() is not None").await;
    assert_eq!(ran.value(), Some("True"), "{ran:?}");
    assert_eq!((ran.stdout().as_str(), ran.stderr().as_str()), ("", ""));
    for (code, value) in [
        ("x = 41", None),
        ("x + 1", Some("42")),
        ("_ + 1", Some("43")),
        ("x;", None),
        ("'text'", Some("'text'")),
        ("import asyncio\nawait asyncio.sleep(0, x)", Some("41")),
        ("a = !echo from the shell\na", Some("['from the shell']")),
        ("Out[3]", Some("42")),
        ("%%capture out\nprint(1)", None),
        ("out.stdout", Some("'1\\n'")),
        ("__name__", Some("'__main__'")),
    ] {
        let ran = ipy(&guest, code).await;
        assert_eq!(ran.value(), value, "{code}: {ran:?}");
    }
    let ran = ipy(&guest, "print('first', flush=True)\n!echo second; cat").await;
    assert_eq!(ran.stdout(), "first\nsecond\n");
    let ran = ipy(&guest, "%cd /tmp").await;
    assert!(ran.stdout().contains("/tmp"), "{ran:?}");
    let ran = ipy(
        &guest,
        "from IPython.display import HTML, display as show\nshow(HTML('<b>'))\nHTML('<i>')",
    )
    .await;
    assert_eq!(ran.results[0]["text/html"], "<b>");
    assert_eq!(ran.results[1]["text/html"], "<i>");
    assert_eq!(ran.main_result, Some(1));
}

#[tokio::test]
async fn its_exceptions_are_told_and_not_printed() {
    let guest = guest().await;
    for (code, name) in [
        ("1 / 0", "ZeroDivisionError"),
        ("x = = 1", "SyntaxError"),
        ("import sys\nsys.exit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ] {
        let ran = ipy(&guest, code).await;
        assert_eq!(ran.error().0, name, "{code}");
        assert_eq!(
            (ran.stdout().as_str(), ran.stderr().as_str()),
            ("", ""),
            "{code}"
        );
        let traceback = &ran.outcome.raised.as_ref().unwrap().traceback;
        assert!(
            traceback.contains(name) && !traceback.contains('\u{1b}'),
            "{traceback}"
        );
    }
    let ran = run(
        &guest,
        within(2500, wish(&python(), "main", "y = 1\nwhile True: y = 1")),
    )
    .await;
    assert_eq!(
        (ran.outcome.termination, ran.loss()),
        (Termination::TimedOut, None)
    );
    assert_eq!(ipy(&guest, "y").await.value(), Some("1"));
    let ran = ipy(&guest, "import os\nos._exit(1)").await;
    assert_eq!(ran.loss(), Some(ContextLoss::Died));
}

#[tokio::test]
async fn figures_and_tables_are_shown_as_without_it() {
    let guest = guest().await;
    let ran = ipy(
        &guest,
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.title('t')",
    )
    .await;
    assert_eq!(
        (ran.results.len(), ran.main_result),
        (2, Some(0)),
        "{ran:?}"
    );
    assert!(ran.results[1]["image/png"].starts_with("iVBOR"));
    assert_eq!(ran.artifacts()[0].kind, "plot");
    let ran = ipy(&guest, "fig = plt.figure(); plt.plot([1]); fig").await;
    assert_eq!((ran.results.len(), ran.artifacts().len()), (1, 1));
    assert!(ran.results[0].contains_key("image/png"));
    let ran = ipy(
        &guest,
        "import pandas as pd\ndf = pd.DataFrame({'a': [1]})\ndisplay(df)\ndf",
    )
    .await;
    assert!(
        ran.results
            .iter()
            .all(|result| result["text/html"].contains("<table"))
    );
    assert_eq!((ran.results.len(), ran.artifacts().len()), (2, 1));
    let bare = RunRequest {
        artifacts: None,
        ..wish(&python(), "bare", "display(1)")
    };
    assert_eq!(run(&guest, bare).await.results[0]["text/plain"], "1");
}
