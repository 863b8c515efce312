//! Every language of the table, with the programs of `tests/languages`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Answer, Service};

/// `deploy/install-deps.sh test` installs these, so none may be missing.
const REQUIRED: [&str; 14] = [
    "bash",
    "c",
    "cpp",
    "go",
    "java",
    "javascript",
    "perl",
    "php",
    "python",
    "r",
    "ruby",
    "rust",
    "sh",
    "typescript",
];
/// Of the endless loop: long enough for a compiler on a busy machine.
const LOOP_SECONDS: u64 = 4;
const COMPILED_LOOP_SECONDS: u64 = 10;

/// What a program is given and must answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    compiled: bool,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    stderr_has: Option<String>,
    #[serde(default)]
    exit_code: i64,
    #[serde(default)]
    fails: bool,
    #[serde(default = "exited")]
    termination: String,
    #[serde(default = "run")]
    phase: String,
}

fn exited() -> String {
    "exited".into()
}

fn run() -> String {
    "run".into()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/languages")
}

fn cases() -> BTreeMap<String, Case> {
    toml::from_str(&fs::read_to_string(folder().join("expected.toml")).unwrap()).unwrap()
}

/// The program of each case that the language has.
fn programs(language: &str) -> BTreeMap<String, String> {
    fs::read_dir(folder().join(language))
        .unwrap_or_else(|_| panic!("tests/languages/{language} is missing"))
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let case = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (case, fs::read_to_string(path).unwrap())
        })
        .collect()
}

fn languages(service: &Service) -> Vec<Value> {
    let answer = service.get("/languages");
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body["languages"].as_array().unwrap().clone()
}

/// Room for a JVM and a compiler.
fn start() -> Service {
    Service::start_with(&[("SANDBOX_MEM_LIMIT", "1g"), ("SANDBOX_TMP_LIMIT", "256m")])
}

#[test]
fn every_language_of_the_table_works_as_its_programs_say_or_names_what_is_missing() {
    let service = start();
    let languages = languages(&service);
    let names: Vec<&str> = languages
        .iter()
        .map(|language| language["name"].as_str().unwrap())
        .collect();
    let mut folders: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert_eq!(names, folders);
    let available = |name: &&str| {
        let of = |language: &&Value| language["name"] == **name;
        languages.iter().find(of).unwrap()["available"] == true
    };
    let missing: Vec<&str> = REQUIRED
        .into_iter()
        .filter(|name| !available(name))
        .collect();
    assert_eq!(
        missing,
        Vec::<&str>::new(),
        "run deploy/install-deps.sh test"
    );

    let (service, cases) = (&service, &cases());
    // A few at a time: half of it is waiting for endless loops to be ended.
    let queue = std::sync::Mutex::new(languages.iter());
    let failures: Vec<String> = thread::scope(|scope| {
        let worker = || {
            let mut failures = Vec::new();
            while let Some(language) = { queue.lock().unwrap().next() } {
                failures.extend(check(service, language, cases));
            }
            failures
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
        let ended = workers.into_iter().map(|worker| worker.join().unwrap());
        ended.flatten().collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check(service: &Service, language: &Value, cases: &BTreeMap<String, Case>) -> Vec<String> {
    let name = language["name"].as_str().unwrap();
    let compiled = language["compiled"] == true;
    let programs = programs(name);
    if language["available"] == false {
        let answer = send(service, name, &programs["hello"], &cases["hello"], 30);
        assert_eq!((answer.status, answer.code()), (422, "not_installed"));
        assert_eq!(answer.body["detail"], language["missing"]);
        return Vec::new();
    }
    let mut failures = Vec::new();
    for (what, case) in cases {
        let Some(program) = programs.get(what) else {
            assert!(
                case.optional || (case.compiled && !compiled),
                "{name} has no program `{what}`"
            );
            continue;
        };
        let timeout = match (what.as_str(), compiled) {
            ("loop", false) => LOOP_SECONDS,
            ("loop", true) => COMPILED_LOOP_SECONDS,
            _ => 60,
        };
        let answer = send(service, name, program, case, timeout);
        if let Err(difference) = compare(&answer, case) {
            failures.push(format!("{name}/{what}: {difference}\n{}", answer.body));
        }
    }
    let unknown = programs.keys().find(|what| !cases.contains_key(*what));
    assert_eq!(unknown, None, "{name} has a program without a case");
    let left = service.post(
        "/bash",
        json!({"session_id": name, "command": "ls -A --ignore=.sandbox; ls -Ad /tmp/.build-* 2>/dev/null"}),
    );
    if left.stdout() != "" {
        failures.push(format!("{name} leaves files: {}", left.body));
    }
    failures
}

fn send(service: &Service, language: &str, code: &str, case: &Case, timeout: u64) -> Answer {
    service.post(
        "/execute",
        json!({
            "session_id": language, "language": language, "code": code,
            "stdin": case.stdin, "args": case.args, "timeout_seconds": timeout,
        }),
    )
}

fn compare(answer: &Answer, case: &Case) -> Result<(), String> {
    if answer.status != 200 {
        return Err(format!("status {}", answer.status));
    }
    let (body, meta) = (&answer.body, &answer.body["meta"]);
    let code = body["exit_code"].as_i64().unwrap();
    let stderr = body["stderr"].as_str().unwrap();
    // rustc says more of an abort than the program.
    let stderr_is_right = match &case.stderr_has {
        Some(part) => stderr.contains(part.as_str()),
        None => stderr == case.stderr,
    };
    for (what, good) in [
        ("stdout", body["stdout"] == case.stdout.as_str()),
        ("stderr", stderr_is_right),
        (
            "exit_code",
            (case.fails && code != 0) || code == case.exit_code,
        ),
        (
            "termination",
            meta["termination"] == case.termination.as_str(),
        ),
        ("phase", meta["phase"] == case.phase.as_str()),
        (
            "timed_out",
            body["timed_out"] == (case.termination == "timed_out"),
        ),
    ] {
        if !good {
            return Err(format!("{what} is not as expected"));
        }
    }
    Ok(())
}

#[test]
fn the_time_of_a_compiler_is_the_runs_and_its_children_end_with_it() {
    let service = Service::start();
    // The compiler reads a pipe that nobody writes to.
    assert_eq!(service.bash("mkfifo pipe").status, 200);
    let answer = service.post(
        "/execute",
        json!({
            "session_id": "s", "language": "c", "timeout_seconds": 1,
            "code": "#include \"pipe\"\nint main(void) { return 0; }",
        }),
    );
    let meta = &answer.body["meta"];
    assert_eq!(
        (
            &answer.body["exit_code"],
            &meta["termination"],
            &meta["phase"]
        ),
        (&json!(124), &json!("timed_out"), &json!("compile")),
        "{}",
        answer.body
    );
    assert_eq!(service.bash("pgrep -c cc1; ls /tmp").stdout(), "0\n");
}

#[test]
fn compiled_code_finds_the_sessions_files_and_its_input_is_its_own() {
    let service = Service::start();
    let answer = service.post(
        "/execute",
        json!({
            "session_id": "s", "language": "c", "stdin": "all of it",
            "code": "#include <stdio.h>\n#include \"n.h\"\nint main(void) { char b[64] = {0}; \
                     fread(b, 1, 63, stdin); printf(\"%d %s\\n\", N, b); }",
            "files": [{"path": "n.h", "content": "#define N 42\n"}],
        }),
    );
    assert_eq!(answer.stdout(), "42 all of it\n");
    let answer = service.post(
        "/execute",
        json!({
            "session_id": "s", "language": "typescript",
            "code": "import { twice } from './lib';\nconsole.log(await Promise.resolve(twice(21)), require('path').sep);",
            "files": [{"path": "lib.ts", "content": "export const twice = (n: number): number => 2 * n;\n"}],
        }),
    );
    assert_eq!(answer.stdout(), "42 /\n");
}

#[test]
fn a_language_that_is_not_installed_is_named_with_where_it_comes_from() {
    let table = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        table.path(),
        "[lua]\nfile = 'main.lua'\ncommand = ['no-such-lua', '{file}']\ninstall = 'package lua'\n\
         [zig]\nfile = 'main.zig'\ncompile = ['no-such-zig', '{out}', '{file}']\ncommand = ['{out}']\n\
         [odd]\nfile = 'main.odd'\ncompile = ['sh', '-c', 'exec no-such-odd', '{out}', '{file}']\n\
         command = ['{out}']\nruntime = 'odd'\n",
    )
    .unwrap();
    let service = Service::start_with(&[("SANDBOX_LANGUAGES", table.path().to_str().unwrap())]);
    let of_all = languages(&service);
    for (name, detail) in [
        (
            "lua",
            "language `lua` needs `no-such-lua`, which is not installed in the sandbox; \
             it comes with package lua",
        ),
        (
            "zig",
            "language `zig` needs `no-such-zig`, which is not installed in the sandbox",
        ),
        (
            "odd",
            "language `odd` needs `odd`, which is not installed in the sandbox",
        ),
    ] {
        let answer = service.post(
            "/execute",
            json!({"session_id": "s", "language": name, "code": "1"}),
        );
        assert_eq!(
            (answer.status, answer.code()),
            (422, "not_installed"),
            "{}",
            answer.body
        );
        assert_eq!(answer.body["detail"], detail);
        let listed = of_all.iter().find(|one| one["name"] == name).unwrap();
        if name != "odd" {
            assert_eq!(
                (&listed["available"], &listed["missing"]),
                (&json!(false), &json!(detail))
            );
        }
    }
    assert_eq!(service.bash("ls -A . /tmp").stdout(), ".:\n\n/tmp:\n");
}

#[test]
fn only_allowed_languages_are_taken_and_listed() {
    let service = Service::start_with(&[("SANDBOX_ALLOWED_LANGUAGES", "python, sh")]);
    let names: Vec<Value> = languages(&service)
        .iter()
        .map(|language| language["name"].clone())
        .collect();
    assert_eq!(names, ["python", "sh"]);
    let answer = service.post("/execute", json!({"language": "perl", "code": "print 1"}));
    assert_eq!((answer.status, answer.code()), (422, "unknown_language"));
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.ends_with("known are python, sh"), "{detail}");
    assert_eq!(service.python("print(1)").stdout(), "1\n");
}
