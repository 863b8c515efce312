//! Runs of Python that come of the service's template.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use backend_local::PythonTemplate;
use sandbox_backend::Backend as _;
use sandbox_conformance::request;
use sandbox_core::{Program, RunOutcome, RunRequest, SandboxSpec, Script};

use crate::support::{Sandbox, Sandboxes, id, is_root, until};

const STARTED: &str = "the template of another test is ready: ";

fn template() -> PythonTemplate {
    let files = [
        (
            "install.py",
            include_str!("../../../guest/src/display/install.py"),
        ),
        (
            "display.py",
            include_str!("../../../guest/src/display/display.py"),
        ),
        (
            "context.py",
            include_str!("../../../guest/src/contexts/programs/context.py"),
        ),
        ("ahead.py", include_str!("../../../guest/src/warm/ahead.py")),
    ];
    let program = include_str!("../../../guest/src/warm/zygote.py");
    PythonTemplate::of_zygote(program, &files, &["numpy".into(), "pandas".into()])
}

fn with_template() -> Sandboxes {
    Sandboxes::with(|config, _| {
        config.python_preload = Some(vec!["numpy".into(), "pandas".into()]);
        config.python_template = Some(template());
    })
}

async fn run(sandbox: &Sandbox, source: &str) -> RunOutcome {
    let request = RunRequest {
        program: Program {
            argv: ["python3", "-u", "{file}"].map(str::to_owned).into(),
            script: Some(Script {
                file_name: "main.py".into(),
                source: source.to_owned().into(),
                compile: Vec::new(),
            }),
        },
        python_display: true,
        ..request(&[])
    };
    let run = sandbox.place.guest().run(request).await.unwrap();
    run.collect().await.unwrap()
}

/// Once the templates are there, which are started when they are first asked for.
async fn ready(sandboxes: &Sandboxes) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let sandbox = sandboxes.start(7).await;
        let warm = run(&sandbox, "pass").await.warm && run(&sandbox, "import pandas").await.warm;
        sandbox.place.stop().await.unwrap();
        if warm {
            return;
        }
        assert!(Instant::now() < until, "no template gets ready");
    }
}

/// The very first run of a session too: nothing was started for it.
#[tokio::test]
async fn the_first_run_of_a_session_comes_of_the_template() {
    if !is_root() {
        return;
    }
    let sandboxes = with_template();
    ready(&sandboxes).await;
    for (n, source) in [
        (1, "import json"),
        (2, "import pandas as pd; pd.DataFrame()"),
    ] {
        let sandbox = sandboxes.start(n).await;
        // The parent of the run's parent is outside.
        let source = format!(
            "{source}\n\
             import os\n\
             stat = open(f'/proc/{{os.getppid()}}/stat').read()\n\
             print(stat.rsplit(')')[1].split()[1], os.getcwd(), os.environ['HOME'])"
        );
        let outcome = run(&sandbox, &source).await;
        assert!(outcome.warm, "{source}");
        assert_eq!(
            (
                outcome.stdout.to_text().as_str(),
                outcome.stderr.to_text().as_str()
            ),
            ("0 /workspace /workspace\n", "")
        );
    }
}

#[tokio::test]
async fn a_run_that_comes_of_the_template_has_no_right_at_all() {
    if !is_root() {
        return;
    }
    let sandboxes = with_template();
    ready(&sandboxes).await;
    let look = "import os, resource\n\
                status = open('/proc/self/status').read().splitlines()\n\
                names = ('Uid', 'Gid', 'Groups', 'Cap', 'NoNew', 'Seccomp')\n\
                for line in status:\n\
                \x20   if line.startswith(names): print(line)\n\
                for name in sorted(os.listdir('/proc/self/ns')):\n\
                \x20   print(name, os.readlink('/proc/self/ns/' + name))\n\
                for name in sorted(dir(resource)):\n\
                \x20   if name.startswith('RLIMIT_') and name != 'RLIMIT_RTTIME':\n\
                \x20       print(name, resource.getrlimit(getattr(resource, name)))\n\
                print(open('/proc/self/cgroup').read(), os.getgroups(), oct(os.umask(0)))\n\
                print(sorted(os.environ.items()), open('/proc/self/oom_score_adj').read())\n\
                for number in range(3, 256):\n\
                \x20   try: print(number, os.fstat(number))\n\
                \x20   except OSError: pass\n";
    let sandbox = sandboxes.start(1).await;
    let forked = run(&sandbox, look).await;
    // An option that only an interpreter's start can heed.
    let started = RunRequest {
        program: Program {
            argv: ["python3", "-u", "-B", "{file}"].map(str::to_owned).into(),
            script: Some(Script {
                file_name: "main.py".into(),
                source: look.into(),
                compile: Vec::new(),
            }),
        },
        python_display: true,
        ..request(&[])
    };
    let started = sandbox.place.guest().run(started).await.unwrap();
    let started = started.collect().await.unwrap();
    assert!(forked.warm && !started.warm);
    assert_eq!(forked.stdout.to_text(), started.stdout.to_text());
    assert!(
        forked
            .stdout
            .to_text()
            .contains("CapBnd:\t0000000000000000")
    );
}

/// What a run leaves behind belongs to its sandbox's init, and ends with it.
#[tokio::test]
async fn what_a_run_leaves_behind_stays_in_its_sandbox() {
    if !is_root() {
        return;
    }
    let sandboxes = with_template();
    ready(&sandboxes).await;
    let sandbox = sandboxes.start(1).await;
    let outcome = run(
        &sandbox,
        "import os, time\n\
         if os.fork() == 0:\n\
         \x20   os.setsid()\n\
         \x20   if os.fork() == 0: time.sleep(0.2); open('parent', 'w').write(str(os.getppid()))\n\
         \x20   os._exit(0)\n\
         os.wait()\n",
    )
    .await;
    assert!(outcome.warm);
    sandbox.sh("until [ -s parent ]; do sleep 0.02; done").await;
    assert_eq!(sandbox.sh("cat parent").await.stdout.to_text(), "1");
    // kill(0, ...) crosses PID namespaces where a process group is shared.
    let outcome = run(&sandbox, "import os; os.kill(0, 9)").await;
    assert_eq!(outcome.signal, Some(9));
    // Its zygote too, which is not the template.
    run(&sandbox, "import os; os.kill(-1, 9)").await;
    assert_eq!(run(&sandbox, "print(42)").await.stdout.to_text(), "42\n");
    let second = sandboxes.start(2).await;
    assert!(run(&second, "pass").await.warm);
}

#[tokio::test]
async fn sessions_draw_numbers_of_their_own() {
    if !is_root() {
        return;
    }
    let sandboxes = with_template();
    ready(&sandboxes).await;
    let mut drawn = BTreeSet::new();
    for n in 0..6 {
        let sandbox = sandboxes.start(n).await;
        let source = "import random, numpy, uuid, tempfile, ssl, secrets\n\
                      print(random.random())\n\
                      print(numpy.random.random())\n\
                      print(numpy.random.default_rng().random())\n\
                      print(uuid.uuid4(), uuid.uuid1())\n\
                      print(next(tempfile._get_candidate_names()))\n\
                      print(ssl.RAND_bytes(8), secrets.token_hex())";
        let outcome = run(&sandbox, source).await;
        assert!(outcome.warm, "{}", outcome.stderr.to_text());
        drawn.extend(outcome.stdout.to_text().lines().map(str::to_owned));
    }
    assert_eq!(drawn.len(), 36, "{drawn:?}");
}

/// Processes that see the `/etc` of this backend, which is nobody else's.
fn of_backend(state_dir: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
    let marks = [format!("{state_dir}/rootfs/etc"), " /etc ".to_owned()];
    pids.filter(|pid| {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let mut lines = mounts.lines();
        lines.any(|line| marks.iter().all(|mark| line.contains(mark)))
    })
    .collect()
}

#[tokio::test]
async fn no_template_is_left_when_its_service_is_killed() {
    if !is_root() {
        return;
    }
    let mut service = Command::new(env::current_exe().unwrap())
        .args(["--exact", "template::service_of_another_test"])
        .args(["--ignored", "--nocapture"])
        .env("SANDBOX_TEST_TEMPLATE", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(service.stdout.take().unwrap()).lines();
    let state = lines.find_map(|line| Some(line.unwrap().split_once(STARTED)?.1.to_owned()));
    let state = state.unwrap();
    assert!(of_backend(&state).len() >= 2);
    service.kill().unwrap();
    service.wait().unwrap();
    until("all are gone", || of_backend(&state).is_empty()).await;
}

/// Started by the test above, which kills it.
#[tokio::test]
#[ignore = "is started by another test"]
async fn service_of_another_test() {
    if env::var_os("SANDBOX_TEST_TEMPLATE").is_none() {
        return;
    }
    let sandboxes = with_template();
    ready(&sandboxes).await;
    println!("{STARTED}{}", sandboxes.config.state_dir.display());
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn without_a_template_a_sandbox_warms_its_own() {
    let sandboxes = Sandboxes::with(|config, _| config.python_preload = Some(Vec::new()));
    let sandbox = sandboxes.start(1).await;
    let until = Instant::now() + Duration::from_secs(30);
    while !run(&sandbox, "pass").await.warm {
        assert!(Instant::now() < until);
    }
    let spec = SandboxSpec {
        env: BTreeMap::from([("A".into(), "1".into())]),
        ..SandboxSpec::default()
    };
    let place = sandboxes.backend.create(&id(2), &spec).await.unwrap();
    place.stop().await.unwrap();
}
