//! Python that is forked from an interpreter that has started.

use std::time::Duration;

use guest_client::RunEvent;
use sandbox_core::{ByteSize, ContextLoss, Limits, RunOutcome, RunRequest, Script, Termination};

use super::cases;
use crate::bed::{Bed, Sandbox, in_context, request, until};

cases! {
    first: "Python gets warm, and is Python" [WarmPython];
    displays: "a forked program displays" [WarmPython];
    confined: "a forked program is confined as one that was started" [WarmPython];
    unseen: "no program can look into what it is forked from" [WarmPython];
    ended: "the end of a forked program is the end of all it started" [WarmPython];
    context_confined: "a context that was forked is confined as one that was started" [WarmPython];
    context_ended: "the end of a forked context is the end of all it started" [WarmPython];
    memory: "a forked program that takes too much memory is killed, and the next is not" [WarmPython, Limits];
    full: "a full workspace is full for forked programs too, and only as long" [WarmPython, Limits];
}

fn python(source: &str) -> RunRequest {
    let mut request = request(&["python3", "-u", "{file}"]);
    request.program.script = Some(Script {
        file_name: "main.py".into(),
        source: source.to_owned().into(),
        compile: Vec::new(),
    });
    request.python_display = true;
    request
}

async fn run(sandbox: &Sandbox, source: &str) -> RunOutcome {
    sandbox.try_run(python(source)).await.unwrap()
}

async fn get_warm(sandbox: &Sandbox) {
    until("runs are forked", async || run(sandbox, "pass").await.warm).await;
}

/// What a forked program prints; it must end well.
async fn says(sandbox: &Sandbox, source: &str) -> String {
    let outcome = run(sandbox, source).await;
    assert_eq!(
        (outcome.exit_code, outcome.stderr.to_text().as_str()),
        (0, ""),
        "{source}"
    );
    assert!(outcome.warm, "{source}");
    outcome.stdout.to_text()
}

/// In text, for nothing but Python need be there.
async fn displays(bed: Bed) {
    let sandbox = bed.start().await;
    get_warm(&sandbox).await;
    let mut run = sandbox
        .guest()
        .run(python("display({'a': 1})\nprint('shown')"))
        .await
        .unwrap();
    let mut seen = Vec::new();
    while let Some(event) = run.next().await.unwrap() {
        match event {
            RunEvent::Display(bundle) => seen.push(bundle),
            RunEvent::Ended(end) => {
                assert_eq!((end.exit_code, end.warm), (0, true));
                break;
            }
            _ => {}
        }
    }
    assert_eq!(seen, [r#"{"text/plain":"{'a': 1}"}"#]);
}

async fn first(bed: Bed) {
    let sandbox = bed.start().await;
    get_warm(&sandbox).await;
    let source = "import os, sys\nprint(__name__, len(sys.argv), os.getcwd(), os.listdir('/proc/self/fd')[:3])";
    assert_eq!(
        says(&sandbox, source).await,
        "__main__ 1 /workspace ['0', '1', '2']\n"
    );
    assert_eq!(run(&sandbox, "raise SystemExit(3)").await.exit_code, 3);
}

const CONFINED: &str = r#"
import os, resource
with open("/proc/self/status") as status:
    for line in status:
        if line.startswith(("Cap", "Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp:")):
            print(line.strip())
for name in sorted(os.listdir("/proc/self/ns")):
    print(name, os.readlink("/proc/self/ns/" + name))
for name in "CORE", "FSIZE", "NOFILE", "NPROC", "DATA", "STACK", "MEMLOCK":
    print(name, resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
with open("/proc/self/cgroup") as groups:
    print(groups.read())
print(os.environ, os.umask(0), os.readlink("/proc/self/root"), os.getpgid(0) == os.getpid())
for path in "/proc/self/exe", "/usr", "/", "/proc/sys/kernel/hostname":
    print(path, os.access(path, os.W_OK))
"#;

async fn confined(bed: Bed) {
    let sandbox = bed.start().await;
    get_warm(&sandbox).await;
    let forked = says(&sandbox, CONFINED).await;
    // With an option, it is started.
    let mut plain = python(CONFINED);
    plain.program.argv.insert(1, "-B".into());
    let plain = sandbox.try_run(plain).await.unwrap();
    assert!(!plain.warm);
    assert_eq!(forked, plain.stdout.to_text());
}

/// Of all processes, those whose command line has the zygote's name.
const UNSEEN: &str = r#"
import os
found = 0
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            if "zygote.py" not in file.read() or os.getppid() != int(pid):
                continue
    except OSError:
        continue
    found += 1
    for name in "mem", "environ", "maps", "fd", "cwd", "root", "exe":
        path = f"/proc/{pid}/{name}"
        try:
            if name == "fd":
                os.listdir(path)
            elif name in ("cwd", "root", "exe"):
                os.readlink(path)
            else:
                open(path, "rb").read(1)
            print("opened", path)
        except PermissionError:
            pass
print(found)
"#;

async fn unseen(bed: Bed) {
    let sandbox = bed.start().await;
    get_warm(&sandbox).await;
    assert_eq!(says(&sandbox, UNSEEN).await, "1\n");
}

async fn ended(bed: Bed) {
    let sandbox = bed.start().await;
    get_warm(&sandbox).await;
    let mut late = python(
        "import os, time\n\
         os.system('setsid sleep 71 & setsid sh -c \"sleep 72 & sleep 73\" &')\n\
         time.sleep(60)",
    );
    late.timeout = Duration::from_millis(700);
    let outcome = sandbox.try_run(late).await.unwrap();
    assert_eq!(
        (outcome.termination, outcome.warm),
        (Termination::TimedOut, true)
    );
    let left = sandbox
        .says("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        .await;
    assert!(!left.contains("sleep 7"), "{left}");
    get_warm(&sandbox).await;
}

async fn context_confined(bed: Bed) {
    let sandbox = bed.start().await;
    get_warm(&sandbox).await;
    // Its two ends of the channel are descriptors of its own.
    let code = format!("{CONFINED}\nprint(len(os.listdir('/proc/self/fd')), os.getcwd())");
    let forked = sandbox.try_run(in_context("forked", &code)).await.unwrap();
    assert!(forked.warm);
    // With an option, it is started.
    let mut plain = in_context("plain", &code);
    plain.program.argv.insert(1, "-B".into());
    let plain = sandbox.try_run(plain).await.unwrap();
    assert!(!plain.warm);
    assert_eq!(forked.stdout.to_text(), plain.stdout.to_text());
    assert_eq!((forked.exit_code, plain.exit_code), (0, 0), "{plain:?}");
    // What it was forked from is closed to it as to any other program.
    let unseen = sandbox.try_run(in_context("forked", UNSEEN)).await;
    assert_eq!(unseen.unwrap().stdout.to_text(), "1\n");
}

async fn context_ended(bed: Bed) {
    let sandbox = bed.start().await;
    get_warm(&sandbox).await;
    let run = async |code: &str| sandbox.try_run(in_context("main", code)).await.unwrap();
    let started = run("import os, subprocess\n\
         x = 5\n\
         kept = subprocess.Popen(['sleep', '74'], start_new_session=True)\n\
         os.system('setsid sleep 75 & setsid sh -c \"sleep 76 & sleep 78\" &')")
    .await;
    assert!(started.warm);
    let slow = RunRequest {
        timeout: Duration::from_secs(1),
        ..in_context("main", "import time\ntime.sleep(60)")
    };
    let slow = sandbox.try_run(slow).await.unwrap();
    assert_eq!(slow.termination, Termination::TimedOut);
    assert_eq!(slow.context.unwrap().loss, None);
    assert_eq!(
        run("print(x, kept.poll())").await.stdout.to_text(),
        "5 None\n"
    );
    let name = "main".parse().unwrap();
    sandbox.guest().delete_context(&name).await.unwrap();
    let left = sandbox
        .says("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        .await;
    assert!(!left.contains("sleep 7"), "{left}");
    let lost = run("import os\nos._exit(7)").await;
    assert_eq!((lost.exit_code, lost.warm), (7, true));
    assert_eq!(lost.context.unwrap().loss, Some(ContextLoss::Died));
}

async fn memory(bed: Bed) {
    let limits = Limits {
        memory: ByteSize::mib(128),
        ..Limits::default()
    };
    let sandbox = bed.start_limited(limits).await;
    get_warm(&sandbox).await;
    let outcome = run(
        &sandbox,
        "keep = []\nwhile True: keep.append(bytearray(1 << 20))",
    )
    .await;
    assert_eq!(
        (outcome.exit_code, outcome.termination),
        (137, Termination::OutOfMemory)
    );
    assert_eq!(run(&sandbox, "print(1)").await.stdout.to_text(), "1\n");
    get_warm(&sandbox).await;
}

async fn full(bed: Bed) {
    let limits = Limits {
        disk: ByteSize::mib(8),
        ..Limits::default()
    };
    let sandbox = bed.start_limited(limits).await;
    get_warm(&sandbox).await;
    let fill = "for n in range(12): open(f'big{n}', 'wb').write(bytes(1 << 20))";
    run(&sandbox, fill).await;
    let write = "with open('small', 'w') as file: file.write('a')";
    until("nothing can be written", async || {
        run(&sandbox, write).await.exit_code != 0
    })
    .await;
    assert_eq!(sandbox.sh("rm big*").await.exit_code, 0);
    until("forked programs write again", async || {
        let outcome = run(&sandbox, write).await;
        (outcome.exit_code, outcome.warm) == (0, true)
    })
    .await;
}
