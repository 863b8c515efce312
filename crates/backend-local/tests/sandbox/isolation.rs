//! What a program in a sandbox sees and reaches.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _};

use sandbox_backend::Backend as _;
use sandbox_core::{ErrorCode, NetworkPolicy, SandboxSpec};

use crate::support::{Sandboxes, id};

#[tokio::test]
async fn the_hosts_name_boot_id_and_board_are_hidden() {
    let sandboxes = Sandboxes::new();
    let (first, second) = (sandboxes.start(1).await, sandboxes.start(2).await);
    let boot_id = "cat /proc/sys/kernel/random/boot_id";
    let boot_ids = [
        first.sh(boot_id).await.stdout.to_text(),
        second.sh(boot_id).await.stdout.to_text(),
        fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap(),
    ];
    assert!(boot_ids.iter().all(|id| id.len() == boot_ids[2].len()));
    assert!(boot_ids[0] != boot_ids[1] && boot_ids[0] != boot_ids[2]);
    assert!(boot_ids[1] != boot_ids[2]);
    let seen = first
        .sh("uname -n; cat /etc/hostname /proc/cmdline /proc/keys; id; ls -A /sys /proc/acpi")
        .await;
    assert_eq!(
        seen.stdout.to_text(),
        "sandbox\nsandbox\nuid=1000(sandbox) gid=1000(sandbox) groups=1000(sandbox)\n/proc/acpi:\n"
    );
    assert!(seen.stderr.to_text().contains("'/sys'"), "{seen:?}");
    // Masked, or root's alone.
    let machine = first
        .sh(
            "cd /proc; cat kcore timer_list sched_debug sysrq-trigger key-users interrupts \
             partitions diskstats kmsg scsi/scsi bus/pci/devices 2>/dev/null | wc -c",
        )
        .await;
    assert_eq!(machine.stdout.to_text(), "0\n");
}

#[tokio::test]
async fn there_is_no_network_not_even_the_hosts_loopback() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let tried = sandbox
        .python(&format!(
            "import socket\n\
             for address in [('127.0.0.1', {port}), ('192.0.2.1', 80)]:\n\
             \x20   s = socket.socket()\n\
             \x20   s.settimeout(5)\n\
             \x20   try: s.connect(address); print('connected')\n\
             \x20   except OSError as e: print(type(e).__name__, e.errno)\n\
             print([name for _, name in socket.if_nameindex()])"
        ))
        .await;
    assert_eq!(tried, "ConnectionRefusedError 111\nOSError 101\n['lo']");
}

#[tokio::test]
async fn a_spec_with_a_network_is_refused() {
    let sandboxes = Sandboxes::new();
    let spec = SandboxSpec {
        network: NetworkPolicy::AllowAll,
        ..SandboxSpec::default()
    };
    let error = sandboxes.backend.create(&id(1), &spec).await.err().unwrap();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    assert_eq!(sandboxes.backend.list().await.unwrap(), []);
}

#[tokio::test]
async fn only_the_workspace_and_tmp_can_be_written() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let outcome = sandbox
        .sh(
            "for dir in / /usr /etc /dev /run /var /.sandbox /proc/sys /workspace /tmp /var/tmp \
             /dev/shm; do if (: > $dir/probe) 2>/dev/null; then echo $dir; fi; done; \
             if (: >> /.sandbox/guest) 2>/dev/null; then echo guest; fi",
        )
        .await;
    assert_eq!(
        outcome.stdout.to_text(),
        "/workspace\n/tmp\n/var/tmp\n/dev/shm\n"
    );
    // What is full is /tmp, not the machine's memory.
    let outcome = sandbox.sh("head -c 100M /dev/zero > /tmp/big").await;
    assert!(outcome.stderr.to_text().contains("No space left"));
}

/// bubblewrap that real root starts leaves /proc/sys writable, whatever it drops.
#[tokio::test]
async fn proc_sys_cannot_be_written() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let writable = sandbox
        .python(
            "import os\n\
             found = []\n\
             for top, dirs, files in os.walk('/proc/sys'):\n\
             \x20   for name in files:\n\
             \x20       path = os.path.join(top, name)\n\
             \x20       try: os.close(os.open(path, os.O_WRONLY)); found.append(path)\n\
             \x20       except OSError: pass\n\
             print(found)",
        )
        .await;
    assert_eq!(writable, "[]");
}

#[tokio::test]
async fn the_hosts_files_are_absent() {
    let sandboxes = Sandboxes::new();
    let probe = sandboxes.config.state_dir.join("probe");
    fs::write(&probe, "secret").unwrap();
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o644)).unwrap();
    let sandbox = sandboxes.start(1).await;
    let seen = sandbox
        .sh(&format!(
            "ls -d /root /home /boot /srv /mnt /etc/shadow /etc/ssl/private /var/lib /run/* {} \
             2>/dev/null; ls /",
            probe.display()
        ))
        .await;
    let top: Vec<String> = seen.stdout.to_text().lines().map(str::to_owned).collect();
    let allowed = [
        "bin",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "run",
        "sbin",
        "tmp",
        "usr",
        "var",
        "workspace",
    ];
    let others: Vec<_> = top
        .iter()
        .filter(|name| !allowed.contains(&name.as_str()))
        .collect();
    assert_eq!(others, [""; 0]);
    assert!(top.iter().any(|name| name == "workspace"));
}

#[tokio::test]
async fn another_sandboxs_files_and_processes_are_out_of_reach() {
    let sandboxes = Sandboxes::new();
    let (first, second) = (sandboxes.start(1).await, sandboxes.start(2).await);
    second
        .sh("echo secret > /workspace/file; echo secret > /tmp/file")
        .await;
    let other = sandboxes.workspace(2);
    assert!(other.join("file").exists());
    let outcome = first
        .sh(&format!(
            "cat {}/file /workspace/file /tmp/file 2>/dev/null; ls -d /proc/[0-9]* | wc -l",
            other.display()
        ))
        .await;
    let lines: Vec<String> = outcome
        .stdout
        .to_text()
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].parse::<u32>().unwrap() < 10,
        "its own processes only"
    );
    // Even a host user who got out would be another one.
    if crate::support::is_root() {
        use std::os::unix::fs::MetadataExt as _;
        let owner = |n| fs::metadata(sandboxes.workspace(n)).unwrap().uid();
        assert_ne!(owner(1), owner(2));
    }
}

#[tokio::test]
async fn the_environment_is_the_sandboxs_own() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let environment = sandbox.sh("env | sort").await.stdout.to_text();
    assert!(environment.contains("HOME=/workspace\n"), "{environment}");
    // cargo sets it for this process.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!environment.contains("CARGO"), "{environment}");
}

/// Judge0 CVE-2024-28185: the host opened, as root, what a link in a workspace named.
#[tokio::test]
async fn a_link_in_the_workspace_is_removed_and_what_it_names_is_not() {
    let sandboxes = Sandboxes::new();
    let kept = sandboxes.config.state_dir.join("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "x").unwrap();
    let sandbox = sandboxes.start(1).await;
    let target = kept.display();
    let made = sandbox
        .sh(&format!(
            "ln -s {target} dir && ln -s {target}/file file && mkdir -p a/b && chmod 0 a"
        ))
        .await;
    assert_eq!(made.exit_code, 0, "{made:?}");
    sandbox.place.stop().await.unwrap();
    sandboxes.backend.remove(&id(1)).await.unwrap();
    assert!(!sandboxes.workspace(1).exists());
    assert!(kept.join("file").exists());
}
