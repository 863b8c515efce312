//! What only a forked interpreter can come to: its zygote ends, stands still, or is out of
//! date, and what was imported ahead is not what the context would import.

use std::time::Duration;

use sandbox_core::ContextLoss;

use crate::{
    guest::{TestGuest, alive, started, until},
    support::{Ran, ended, py, python, wish},
};

/// As `py`, also where it is started.
async fn any(guest: &TestGuest, name: &str, code: &str) -> Ran {
    ended(guest.client.run(wish(&python(), name, code)).await.unwrap()).await
}

/// Ends or stops what the context was forked from.
fn to_zygote(signal: &str) -> String {
    format!("import os, signal\nos.kill(os.getppid(), signal.{signal})\nos.getppid()")
}

/// Makes a context of what has packages ahead.
async fn has_packages(guest: &TestGuest, name: &str) {
    let code = "import numpy, sys\n'pandas' not in sys.modules and type(sys.meta_path[0]).__name__";
    let ran = any(guest, name, code).await;
    assert_eq!((ran.value(), ran.outcome.warm), (Some("'Ahead'"), true));
}

#[tokio::test]
async fn a_context_survives_what_it_was_forked_from() {
    let guest = TestGuest::start().await;
    py(&guest, "x = 5").await;
    py(&guest, &to_zygote("SIGKILL")).await;
    let ran = py(
        &guest,
        "import subprocess\nsubprocess.Popen(['sleep', '300'], start_new_session=True).pid",
    )
    .await;
    let left = ran.value().unwrap().to_owned();
    assert_eq!(py(&guest, "x").await.value(), Some("5"));
    // Its end is seen, though nobody tells how it was.
    let ran = py(&guest, "import os\nos._exit(7)").await;
    assert_eq!(
        (ran.loss(), ran.outcome.exit_code),
        (Some(ContextLoss::Died), 137)
    );
    guest.bash(&format!("kill {left}")).await;
    assert!(any(&guest, "main", "1").await.context().created);
    // And it is ended with all it has started.
    guest.get_warm().await;
    let code = "import os, subprocess\nprint(subprocess.Popen(['setsid', 'sleep', '300']).pid)";
    let ran = any(&guest, "other", code).await;
    assert!(ran.outcome.warm);
    any(&guest, "other", &to_zygote("SIGKILL")).await;
    let name = "other".parse().unwrap();
    guest.client.delete_context(&name).await.unwrap();
    until("what it started is gone", || !alive(&ran.stdout())).await;
}

#[tokio::test]
async fn an_end_is_known_also_when_its_zygote_was_stopped() {
    let guest = TestGuest::start().await;
    py(&guest, &to_zygote("SIGSTOP")).await;
    let ran = py(&guest, "os._exit(7)").await;
    // What it is told by is let go on, and may take too long for that.
    assert_eq!(ran.loss(), Some(ContextLoss::Died));
    assert!([7, 137].contains(&ran.outcome.exit_code), "{ran:?}");
    // Between two runs, too.
    guest.get_warm().await;
    py(&guest, &to_zygote("SIGSTOP")).await;
    let end = "import threading\nthreading.Timer(0.1, lambda: os._exit(1)).start()";
    py(&guest, end).await;
    for _ in 0..100 {
        if guest.client.contexts().await.unwrap().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it is there for ever");
}

#[tokio::test]
async fn what_it_started_ends_with_it_however_it_hides() {
    let guest = TestGuest::start().await;
    let hide = "import os, resource, time\n\
        hard = resource.getrlimit(resource.RLIMIT_RTTIME)[1]\n\
        for hide in False, True:\n \
        if os.fork() == 0:\n  os.setsid()\n  pid = os.fork()\n  \
        if pid: print(pid, flush=True); os._exit(0)\n  \
        if hide: resource.setrlimit(resource.RLIMIT_RTTIME, (hard - 1, hard - 1))\n  \
        time.sleep(300)\n \
        os.wait()";
    let ran = py(&guest, hide).await;
    let output = ran.stdout();
    let pids: Vec<&str> = output.lines().collect();
    assert_eq!(pids.len(), 2, "{output}");
    assert!(pids.iter().all(|pid| alive(pid)));
    let name = "main".parse().unwrap();
    guest.client.delete_context(&name).await.unwrap();
    for pid in pids {
        until("it is gone", || !alive(pid)).await;
    }
}

#[tokio::test]
async fn a_zygote_that_is_out_of_date_is_replaced_and_tells_of_its_contexts() {
    let guest = TestGuest::start().await;
    let ran = py(&guest, "import os\nx = 5\nos.getppid()").await;
    let old = ran.value().unwrap().to_owned();
    let children = async || {
        let listed = guest
            .bash(&format!("cat /proc/{old}/task/*/children | wc -w"))
            .await;
        listed.stdout.to_text().trim().to_owned()
    };
    guest
        .bash("mkdir -p $(/usr/bin/python3 -m site --user-site)")
        .await;
    guest.get_warm().await;
    let ran = any(&guest, "new", "import os\nos.getppid()").await;
    assert!(ran.outcome.warm);
    assert_ne!(ran.value(), Some(old.as_str()));
    // But for the context, it has nothing that takes memory.
    for _ in 0..100 {
        if children().await == "1" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(children().await, "1");
    assert_eq!(py(&guest, "x").await.value(), Some("5"));
    let ran = py(&guest, "os._exit(7)").await;
    assert_eq!(
        (ran.loss(), ran.outcome.exit_code),
        (Some(ContextLoss::Died), 7)
    );
    until("it ends with the last of them", || !alive(&old)).await;
}

#[tokio::test]
async fn many_contexts_do_not_make_more_children_wait() {
    let guest = TestGuest::start().await;
    let mut zygote = String::new();
    for name in ["a", "b", "c", "d", "e"] {
        let ran = any(&guest, name, "import os\nos.getppid()").await;
        assert!(ran.outcome.warm);
        zygote = ran.value().unwrap().to_owned();
    }
    let code = format!(
        "import time\ntime.sleep(1)\nlen(open('/proc/{zygote}/task/{zygote}/children').read().split()) <= 6"
    );
    assert_eq!(any(&guest, "a", &code).await.value(), Some("True"));
}

#[tokio::test]
async fn where_it_might_be_told_it_is_started() {
    let guest = TestGuest::start().await;
    let beside = guest.workspace.path().join("csv.py");
    std::fs::write(&beside, "VALUE = 42").unwrap();
    let ran = any(&guest, "shadowed", "import csv\ncsv.VALUE").await;
    assert_eq!((ran.value(), ran.outcome.warm), (Some("42"), false));
    std::fs::remove_file(beside).unwrap();
    let mut other = python();
    other.argv.insert(1, "-B".into());
    let run = guest.client.run(wish(
        &other,
        "option",
        "import sys\nsys.flags.dont_write_bytecode",
    ));
    let ran = ended(run.await.unwrap()).await;
    assert_eq!((ran.value(), ran.outcome.warm), (Some("1"), false));
    assert!(any(&guest, "usual", "1").await.outcome.warm);
}

/// A module that is found before a package that was imported ahead, and one that is none.
#[tokio::test]
async fn what_is_imported_later_is_what_is_there_then() {
    let (cold, warm) = (started().await, TestGuest::start().await);
    let mut seen = Vec::new();
    for guest in [&cold, &*warm] {
        let run = async |code: &str| {
            let run = guest.client.run(wish(&python(), "main", code));
            let ran = ended(run.await.unwrap()).await;
            let raised = ran.outcome.raised.as_ref().map(|it| it.name.clone());
            (ran.value().map(str::to_owned), raised, ran.results.len())
        };
        let mut all = vec![run("import numpy\nnumpy.__name__").await];
        std::fs::write(guest.workspace.path().join("pandas.py"), "VALUE = 42").unwrap();
        all.push(run("import pandas\npandas.VALUE").await);
        let package = guest.workspace.path().join("matplotlib");
        std::fs::create_dir(&package).unwrap();
        std::fs::write(package.join("__init__.py"), "VALUE = 43").unwrap();
        all.push(run("import matplotlib\nmatplotlib.VALUE").await);
        // The next interpreter is started, for these are there already.
        std::fs::remove_file(guest.workspace.path().join("pandas.py")).unwrap();
        std::fs::remove_dir_all(&package).unwrap();
        all.push(run("del sys.modules['pandas']\nimport pandas\npandas.VALUE").await);
        all.push(run("import sys\ndel sys.modules['matplotlib']\nimport matplotlib.pyplot as plt\n_ = plt.plot([1])").await);
        seen.push(all);
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0][1].0.as_deref(), Some("42"));
    assert_eq!(seen[0][4], (None, None, 1));
}

#[tokio::test]
async fn threads_import_what_is_put_aside_at_once() {
    let guest = TestGuest::start().await;
    let code = "import importlib, threading\n\
        names = ['numpy', 'numpy.linalg', 'pandas', 'dateutil.parser', 'matplotlib.pyplot'] * 4\n\
        imported = []\n\
        def imports(name): imported.append(importlib.import_module(name).__name__)\n\
        workers = [threading.Thread(target=imports, args=(name,)) for name in names]\n\
        [it.start() for it in workers], [it.join() for it in workers]\n\
        sorted(imported) == sorted(names)";
    has_packages(&guest, "main").await;
    let ran = py(&guest, code).await;
    assert_eq!((ran.value(), ran.stderr().as_str()), (Some("True"), ""));
}

#[tokio::test]
async fn contexts_draw_other_numbers_each_time() {
    let guest = TestGuest::start().await;
    let code = "import numpy, random, secrets, tempfile, uuid\n\
        print(random.random(), numpy.random.rand(), numpy.random.default_rng().random())\n\
        print(secrets.token_hex(4), uuid.uuid4(), tempfile.mktemp())";
    let mut seen = std::collections::BTreeSet::new();
    for name in ["a", "b", "c"] {
        let ran = any(&guest, name, code).await;
        assert!(ran.outcome.warm);
        for word in ran.stdout().split_whitespace() {
            assert!(seen.insert(word.to_owned()), "{word} comes twice");
        }
    }
}

/// Says what a program's last act says, to the only socket of that kind.
#[tokio::test]
async fn who_says_that_it_is_done_is_lost() {
    let guest = TestGuest::start().await;
    let code = "import os, socket, time\n\
        names = [line.split()[-1] for line in open('/proc/net/unix') if '@sandbox-' in line]\n\
        for name in names:\n \
        try: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'3', '\\0' + name[1:])\n \
        except OSError: pass\n\
        time.sleep(60)";
    let ran = py(&guest, code).await;
    assert_eq!(
        (ran.loss(), ran.outcome.exit_code),
        (Some(ContextLoss::Died), 3)
    );
    assert_eq!(py(&guest, "1").await.value(), Some("1"));
}

/// What matplotlib reads when it is imported, and what numpy tells of its warnings.
#[tokio::test]
async fn what_is_set_before_an_import_is_what_it_finds() {
    let (cold, warm) = (started().await, TestGuest::start().await);
    let mut seen = Vec::new();
    for guest in [&cold, &*warm] {
        let mut all = Vec::new();
        for code in [
            "import numpy, os\nos.environ['MPLBACKEND'] = 'svg'",
            "import matplotlib.pyplot as plt\nplt.get_backend(), plt.plot([1])[0].get_xdata()",
            "for i in range(3): _ = numpy.polyfit([1, 1, 1], [1, 1, 1], 2)",
        ] {
            let run = guest.client.run(wish(&python(), "main", code));
            let ran = ended(run.await.unwrap()).await;
            all.push((
                ran.value().map(str::to_owned),
                ran.stderr().matches("RankWarning").count(),
                ran.results.len(),
            ));
        }
        seen.push(all);
    }
    assert_eq!(seen[0], seen[1]);
    assert!(seen[0][1].0.as_deref().unwrap().contains("'svg'"));
    assert_eq!(seen[0][2].1, 3);
}

#[tokio::test]
async fn packages_are_there_for_code_that_imports_them_first() {
    let guest = TestGuest::start().await;
    for (name, first, has_them) in [
        ("a", "import os\nimport numpy", true),
        ("b", "import os\nos.environ['A'] = '1'\nimport numpy", false),
        ("c", "# numpy", false),
    ] {
        any(&guest, name, first).await;
        let code = "import sys\ntype(sys.meta_path[0]).__name__ == 'Ahead'";
        let ran = any(&guest, name, code).await;
        let expected = if has_them { "True" } else { "False" };
        assert_eq!(
            (ran.value(), ran.outcome.warm),
            (Some(expected), true),
            "{name}"
        );
    }
}
