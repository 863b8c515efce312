//! Figures and tables of the newest packages from PyPI, looked at in the sandbox again.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::support::Service;

/// An environment that has the packages.
fn venv() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("artifacts-venv");
    let made = Command::new(tests.join("openapi/venv.sh"))
        // Sandboxes see the system's own.
        .env("PYTHON", "/usr/bin/python3")
        .arg(&venv)
        .arg(tests.join("artifacts/requirements.txt"))
        .status()
        .unwrap();
    assert!(made.success());
    venv
}

struct Packages {
    service: Service,
    venv: String,
}

impl Packages {
    fn start() -> Self {
        let venv = venv().to_str().unwrap().to_owned();
        Self {
            service: Service::start_with(&[("SANDBOX_READ_ONLY_PATHS", &venv)]),
            venv,
        }
    }

    fn run(&self, session: &str, code: &str, files: Value) -> Value {
        let body = json!({
            "session_id": session,
            "code": code,
            "files": files,
            "env": {"PATH": format!("{}/bin:/usr/bin:/bin", self.venv)},
            "timeout_seconds": 120,
        });
        let answer = self.service.post("/execute", body);
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(
            (&answer.body["exit_code"], &answer.body["stderr"]),
            (&json!(0), &json!("")),
            "{}",
            answer.body
        );
        answer.body
    }

    fn fetch(&self, artifact: &Value) -> Vec<u8> {
        let path = format!("/artifacts/{}", artifact["id"].as_str().unwrap());
        let answer = self.service.get(&path);
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.header("content-type"), artifact["mime_type"]);
        answer.bytes
    }

    /// What a program in another session prints of these bytes, as JSON.
    fn look(&self, code: &str, data: &[u8]) -> Value {
        let file =
            json!({"path": "fetched", "content": STANDARD.encode(data), "encoding": "base64"});
        let answer = self.run("looks", code, json!([file]));
        serde_json::from_str(answer["stdout"].as_str().unwrap()).unwrap()
    }
}

#[test]
fn a_figure_is_a_picture_that_can_be_decoded() {
    let packages = Packages::start();
    let answer = packages.run(
        "s",
        "import matplotlib, matplotlib.pyplot as plt\n\
         fig = plt.figure(figsize=(3, 2), dpi=100, facecolor='blue')\n\
         plt.plot([1, 2, 3]); plt.savefig('saved.png'); plt.show()\n\
         plt.figure(facecolor='red'); plt.plot([3, 1])\n\
         print(matplotlib.__file__)",
        json!([]),
    );
    let from = answer["stdout"].as_str().unwrap();
    assert!(from.contains("artifacts-venv"), "{from}");
    let made = answer["artifacts"].as_array().unwrap();
    let mut names: Vec<_> = made.iter().map(|it| it["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["figure-1.png", "figure-2.png", "saved.png"]);
    for artifact in made {
        assert_eq!(artifact["kind"], "plot");
        let seen = packages.look(
            "import json\nfrom PIL import Image\n\
             image = Image.open('fetched'); image.load()\n\
             print(json.dumps([image.format, image.size, image.convert('RGB').getpixel((0, 0))]))",
            &packages.fetch(artifact),
        );
        let color = match artifact["name"].as_str().unwrap() {
            "figure-2.png" => json!([255, 0, 0]),
            _ => json!([0, 0, 255]),
        };
        assert_eq!((&seen[0], &seen[2]), (&json!("PNG"), &color));
        if artifact["name"] == "saved.png" {
            assert_eq!(seen[1], json!([300, 200]));
        }
    }
}

#[test]
fn a_frame_is_a_table_in_csv_and_parquet() {
    let packages = Packages::start();
    let answer = packages.run(
        "s",
        "import pandas as pd\n\
         frame = pd.DataFrame({'n': range(1000), 'x': [n / 4 for n in range(1000)],\n\
             'day': pd.date_range('2024-02-28', periods=1000), 'word': ['ä,\"\\n'] * 1000})\n\
         frame.loc[1, 'x'] = None\n\
         display(frame)",
        json!([]),
    );
    let made = answer["artifacts"].as_array().unwrap();
    let names: Vec<_> = made.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["table-1.csv", "table-1.parquet"]);
    let (csv, parquet) = (&made[0], &made[1]);
    assert_eq!(
        (&csv["kind"], &parquet["kind"]),
        (&json!("table"), &json!("table"))
    );

    let about = &csv["table"];
    assert_eq!(
        (&about["rows_total"], &about["columns_total"]),
        (&json!(1000), &json!(4))
    );
    let columns: Vec<_> = about["schema"].as_array().unwrap().iter().collect();
    let names: Vec<_> = columns.iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["n", "x", "day", "word"]);
    assert_eq!(
        (&columns[0]["dtype"], &columns[1]["dtype"]),
        (&json!("int64"), &json!("float64"))
    );
    let preview = about["preview"].as_array().unwrap();
    assert_eq!(preview.len(), 20);
    assert_eq!(preview[1]["x"], Value::Null);
    assert_eq!(
        (&preview[2]["n"], &preview[2]["x"]),
        (&json!(2), &json!(0.5))
    );
    assert!(
        preview[2]["day"]
            .as_str()
            .unwrap()
            .starts_with("2024-03-01"),
        "a leap year"
    );
    let formats = about["formats"].as_array().unwrap();
    let formats: Vec<_> = formats
        .iter()
        .map(|it| (&it["format"], &it["id"]))
        .collect();
    assert_eq!(
        formats,
        [
            (&json!("csv"), &csv["id"]),
            (&json!("parquet"), &parquet["id"])
        ]
    );

    // Both have every cell.
    let compare = "pd.DataFrame({'n': range(1000), 'x': [None if n == 1 else n / 4 for n in range(1000)],\n\
         'day': pd.date_range('2024-02-28', periods=1000), 'word': ['ä,\"\\n'] * 1000})";
    for (artifact, read) in [
        (csv, "pd.read_csv('fetched', parse_dates=['day'])"),
        (parquet, "pd.read_parquet('fetched')"),
    ] {
        let data = packages.fetch(artifact);
        let same = packages.look(
            &format!(
                "import pandas as pd\nwant = {compare}\ngot = {read}\n\
                 pd.testing.assert_frame_equal(got, want, check_dtype=False)\nprint(len(got))"
            ),
            &data,
        );
        assert_eq!(same, 1000);
    }
}
