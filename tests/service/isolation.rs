//! The sandbox, looked at from inside and from outside.

use std::fs;

use serde_json::json;

use crate::support::{Service, processes_with, until};

/// The host's process that runs `sleep <mark>` in a sandbox.
fn sleeping(service: &Service, mark: &str) -> u32 {
    service.bash(&format!("sleep {mark} & true"));
    let mut found = Vec::new();
    until("the program runs", || {
        found = processes_with(mark)
            .into_iter()
            .filter(|pid| {
                fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c == "sleep\n")
            })
            .collect();
        found.len() == 1
    });
    found[0]
}

fn status(pid: u32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_program_has_no_power_and_nothing_of_the_services() {
    let service = Service::start();
    let pid = sleeping(&service, &format!("4{}", std::process::id() + 1_000_000));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status(pid, set), "0000000000000000", "{set}");
    }
    assert_eq!(status(pid, "NoNewPrivs"), "1");
    assert_eq!(status(pid, "Seccomp"), "2");
    for namespace in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{namespace}")).unwrap();
        assert_ne!(of(&pid.to_string()), of("self"), "{namespace}");
    }
    // Its loader has a library open at first.
    until("three descriptors are all that it has", || {
        fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() == 3
    });
    let stat = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<String> = text[text.rfind(')').unwrap() + 2..]
            .split(' ')
            .map(str::to_owned)
            .collect();
        (fields[2].clone(), fields[3].clone())
    };
    let (group, session) = stat(pid);
    let (service_group, service_session) = stat(service.pid());
    assert_ne!(group, service_group);
    assert_ne!(session, service_session);
}

#[test]
fn as_root_each_session_is_an_unprivileged_user_of_its_own() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let service = Service::start();
    let first = sleeping(&service, &format!("3{}", std::process::id() + 1_000_000));
    let mark = format!("2{}", std::process::id() + 1_000_000);
    service.post(
        "/bash",
        json!({"session_id": "t", "command": format!("sleep {mark} & true")}),
    );
    let mut second = Vec::new();
    until("the second program runs", || {
        second = processes_with(&mark);
        second.retain(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c == "sleep\n")
        });
        !second.is_empty()
    });
    let uid = |pid| {
        status(pid, "Uid")
            .split(' ')
            .next()
            .unwrap()
            .parse::<u32>()
            .unwrap()
    };
    assert!(uid(first) >= 1_900_000_000 && uid(second[0]) >= 1_900_000_000);
    assert_ne!(uid(first), uid(second[0]));
    assert_eq!(status(first, "Groups"), "");
}

#[test]
fn the_host_is_out_of_sight() {
    let service = Service::start();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_ne!(
        service
            .bash("hostname; cat /proc/sys/kernel/hostname")
            .stdout(),
        host.repeat(2)
    );
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_ne!(
        service.bash("cat /proc/sys/kernel/random/boot_id").stdout(),
        boot
    );
    let seen = service.bash("ls /sys/class/dmi /root /home /work /var/lib /proc/1/fd /etc/shadow 2>&1 | grep -v -e 'No such file' -e 'Permission denied'; cat /proc/1/environ 2>/dev/null; id -u; ls -d /etc/resolv.conf 2>/dev/null; true");
    assert_eq!(seen.stdout(), "1000\n");
    let environment = service.bash("env -0 | cut -z -d= -f1 | sort -z | tr '\\0' ' '");
    for name in environment.stdout().split_whitespace() {
        assert!(
            [
                "HOME",
                "LANG",
                "LOGNAME",
                "MPLBACKEND",
                "MPLCONFIGDIR",
                "PATH",
                "PWD",
                "SHLVL",
                "TMPDIR",
                "USER",
                "XDG_CACHE_HOME",
                "_",
                "OLDPWD",
                "SHELL"
            ]
            .contains(&name),
            "{name}"
        );
    }
    let state = service.state();
    assert_eq!(
        service
            .bash(&format!("ls {} 2>&1 | grep -c 'No such'", state.display()))
            .stdout(),
        "1\n"
    );
}

#[test]
fn nothing_but_the_workspace_and_tmpfs_can_be_written() {
    let service = Service::start();
    let answer = service.python(
        "import os
for path in ['/usr/x', '/etc/x', '/x', '/bin/x', '/.sandbox/x', '/proc/sys/kernel/core_pattern', '/proc/sys/vm/drop_caches', '/proc/sysrq-trigger', '/dev/x', '/proc/1/oom_score_adj', '/proc/1/mem']:
    try:
        open(path, 'w').close(); print('wrote', path)
    except OSError: pass
print(open('/workspace/ok', 'w').write('1'), open('/tmp/ok', 'w').write('1'))",
    );
    // The devices' folder is a tmpfs of the sandbox's own.
    assert_eq!(answer.stdout().replace("wrote /dev/x\n", ""), "1 1\n");
}

#[test]
fn the_network_is_not_there() {
    let service = Service::start();
    let port = service.url.rsplit(':').next().unwrap().to_owned();
    let answer = service.python(&format!(
        "import socket
for where in [('127.0.0.1', {port}), ('8.8.8.8', 53)]:
    try:
        socket.create_connection(where, 2); print('reached', where)
    except OSError as e: print(type(e).__name__)
try: socket.getaddrinfo('localhost.example', 80); print('resolved')
except OSError: pass
print(socket.if_nameindex())"
    ));
    assert!(
        !answer.stdout().contains("reached") && !answer.stdout().contains("resolved"),
        "{}",
        answer.stdout()
    );
    assert!(
        answer.stdout().ends_with("[(1, 'lo')]\n"),
        "{}",
        answer.stdout()
    );
}

#[test]
fn dangerous_system_calls_are_refused() {
    let service = Service::start();
    let answer = service.python(
        "import ctypes, os, fcntl, termios, socket, errno
libc = ctypes.CDLL(None, use_errno=True)
def refused(name, result):
    e = ctypes.get_errno()
    if result != -1 or e not in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT): print(name, 'allowed', result, e)
call = lambda name, *a: refused(name, libc.syscall(*a))
call('unshare', 272, 0x10000000)
call('clone newuser', 56, 0x10000000 | 17, 0, 0, 0, 0)
call('clone3', 435, 0, 0)
call('setns', 308, 0, 0)
call('mount', 165, b'x', b'/tmp', b'tmpfs', 0, 0)
call('umount2', 166, b'/tmp', 0)
call('pivot_root', 155, b'/', b'/')
call('open_tree', 428, -100, b'/', 1)
call('fsopen', 430, b'tmpfs', 0)
call('ptrace', 101, 0, 0, 0, 0)
call('process_vm_readv', 310, os.getpid(), 0, 0, 0, 0, 0)
call('bpf', 321, 0, 0, 0)
call('perf_event_open', 298, 0, 0, 0, 0, 0)
call('add_key', 248, 0, 0, 0, 0, 0)
call('keyctl', 250, 0, 0)
call('kexec_load', 246, 0, 0, 0, 0)
call('init_module', 175, 0, 0, 0)
call('userfaultfd', 323, 0)
call('io_uring_setup', 425, 1, 0)
call('x32 getpid', 0x40000000 + 39)
for name, number in [('TIOCSTI', termios.TIOCSTI), ('TIOCLINUX', 0x541c), ('TIOCSTI high bits', termios.TIOCSTI | (1 << 32))]:
    call(name, 16, 0, ctypes.c_ulong(number), b'x')
for family in (40, 17, 38):
    try: socket.socket(family, socket.SOCK_DGRAM); print('socket', family)
    except OSError: pass
print('done')",
    );
    assert_eq!(answer.stdout(), "done\n", "{}", answer.body["stderr"]);
}

#[test]
fn a_service_in_json_logs_keeps_secrets_and_code_out() {
    // Looked at as an operator would: everything on, one run, then the log.
    let state = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o711))
        .tempdir()
        .unwrap();
    let log = state.path().join("log");
    let mut process = std::process::Command::new(env!("CARGO_BIN_EXE_sandboxd"))
        .arg("serve")
        .env("SANDBOX_STATE_DIR", state.path().join("state"))
        .env("SANDBOX_LISTEN", "127.0.0.1:0")
        .env("SANDBOX_LOG", "debug")
        .env("SANDBOX_LOG_FORMAT", "json")
        .stdout(std::process::Stdio::piped())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(process.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    let client = crate::support::Client {
        url: line
            .trim()
            .strip_prefix("listening on ")
            .unwrap()
            .to_owned(),
        token: Some("tok3n-in-a-header".into()),
    };
    let answer = client.post("/bash", json!({"session_id": "s", "command": "echo c0de-in-a-body $E", "env": {"E": "v4lue-in-env"}}));
    assert_eq!(answer.stdout(), "c0de-in-a-body v4lue-in-env\n");
    until("the request is logged", || {
        fs::read_to_string(&log).unwrap().contains("/bash")
    });
    process.kill().unwrap();
    process.wait().unwrap();
    let text = fs::read_to_string(&log).unwrap();
    for secret in ["tok3n", "c0de", "v4lue"] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
    let with_request = text.lines().find(|line| line.contains("/bash")).unwrap();
    let entry: serde_json::Value = serde_json::from_str(with_request).unwrap();
    assert!(
        entry.to_string().contains(answer.header("x-request-id")),
        "{entry}"
    );
}
