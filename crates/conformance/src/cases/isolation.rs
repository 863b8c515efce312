//! What a program cannot reach, asserted from inside.

use sandbox_core::{ErrorCode, NetworkPolicy, SandboxSpec};

use super::cases;
use crate::bed::{Bed, code};

cases! {
    no_network: "there is no network but a loopback of its own";
    no_privileges: "programs have no capabilities, and gain none";
    not_root: "programs are not root, and the workspace is theirs";
    system_is_read_only: "nothing but the workspace and temporary folders can be written";
    kernel_is_closed: "kernel settings and devices are out of reach";
    no_mounts: "nothing can be mounted, and no namespace with privileges is made";
    own_processes: "the processes of others are not seen, and the guest's memory is closed";
    no_secrets: "the environment has nothing of the service's";
    apart: "two sandboxes share no files, processes, or shared memory";
    unsupported: "a spec that needs what the backend lacks is refused";
}

async fn no_network(bed: Bed) {
    let sandbox = bed.start().await;
    let said = sandbox
        .python(
            "import socket, os\n\
             print(sorted(os.listdir('/sys/class/net')) if os.path.isdir('/sys/class/net') else ['lo'])\n\
             for target in [('1.1.1.1', 53), ('172.17.0.1', 22), ('169.254.169.254', 80)]:\n\
             \x20   s = socket.socket(); s.settimeout(3)\n\
             \x20   try: s.connect(target); print('reached', target)\n\
             \x20   except OSError: pass\n\
             try: print(socket.getaddrinfo('example.com', 80))\n\
             except OSError: print('no names')\n\
             server = socket.create_server(('127.0.0.1', 0))\n\
             client = socket.create_connection(server.getsockname()); print('loopback')",
        )
        .await;
    assert_eq!(said, "['lo']\nno names\nloopback\n");
}

async fn no_privileges(bed: Bed) {
    let sandbox = bed.start().await;
    let status = sandbox.says("cat /proc/self/status").await;
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert!(
            status.contains(&format!("{capabilities}:\t0000000000000000\n")),
            "{status}"
        );
    }
    assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
    assert!(status.contains("Seccomp:\t2\n"), "{status}");
}

async fn not_root(bed: Bed) {
    let sandbox = bed.start().await;
    let said = sandbox
        .says("[ $(id -u) != 0 ] && [ $(id -g) != 0 ] && [ -O . ] && touch mine && echo ok")
        .await;
    assert_eq!(said, "ok\n");
}

async fn system_is_read_only(bed: Bed) {
    let sandbox = bed.start().await;
    let said = sandbox
        .says(
            "for d in / /usr /usr/bin /etc /.sandbox /sys /proc /root /home /var /dev /run; do \
             [ -d $d ] || continue; (echo x > $d/written) 2>/dev/null && echo $d; done; \
             for d in . /tmp /var/tmp /dev/shm; do echo x > $d/written && rm $d/written; done; echo end",
        )
        .await;
    assert_eq!(said, "end\n");
}

async fn kernel_is_closed(bed: Bed) {
    let sandbox = bed.start().await;
    let said = sandbox
        .says(
            "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sysrq-trigger \
             /sys/kernel/uevent_helper /proc/self/oom_adj_none; do \
             (cat $f > kept && cat kept > $f) 2>/dev/null && echo wrote $f; done; \
             for f in /proc/kcore /dev/mem /dev/kmsg /dev/sda /dev/vda /dev/fuse /dev/kvm \
             /sys/firmware/dmi/tables/DMI /sys/class/dmi/id/product_name; do \
             (head -c 1 $f | grep -q .) 2>/dev/null && echo read $f; done; \
             (mknod disk b 8 0) 2>/dev/null && echo made a device; echo end",
        )
        .await;
    assert_eq!(said, "end\n");
}

async fn no_mounts(bed: Bed) {
    let sandbox = bed.start().await;
    let said = sandbox
        .says(
            "mount -t tmpfs none /tmp 2>/dev/null && echo mounted; \
             unshare -Ur true 2>/dev/null && echo user namespace; \
             unshare -m true 2>/dev/null && echo mount namespace; \
             chroot / true 2>/dev/null && echo chroot; echo end",
        )
        .await;
    assert_eq!(said, "end\n");
}

async fn own_processes(bed: Bed) {
    let sandbox = bed.start().await;
    let said = sandbox
        .says(
            "for p in /proc/[0-9]*; do cat $p/comm; done 2>/dev/null | sort -u | \
             grep -v -e guest -e '^exe$' -e '^sh$' -e cat -e sort -e grep -e '^python3'; \
             for f in mem environ maps fd/0 root/etc; do \
             (head -c 1 /proc/1/$f) >/dev/null 2>&1 && echo opened $f; done; echo end",
        )
        .await;
    assert_eq!(said, "end\n");
}

async fn no_secrets(bed: Bed) {
    let sandbox = bed.start().await;
    let said = sandbox
        .says("env; cat /proc/*/environ 2>/dev/null; echo")
        .await;
    for word in [
        "SANDBOX_",
        "DOCKER_",
        "DATABASE_URL",
        "CARGO",
        "SECRET",
        "TOKEN",
    ] {
        assert!(!said.contains(word), "{said}");
    }
}

async fn apart(bed: Bed) {
    let (one, other) = (bed.start().await, bed.start().await);
    one.says("echo secret > f; echo secret > /tmp/f; echo secret > /dev/shm/f; sleep 100 >/dev/null 2>&1 &")
        .await;
    let said = other
        .says("ls -A . | grep -v '^.sandbox$'; ls -A /tmp /dev/shm | grep -w f; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep 10[0] '; true")
        .await;
    assert_eq!(said, "");
    let names = [&one, &other].map(|it| it.id.as_str().to_owned());
    let seen = other
        .says("hostname; cat /proc/self/mountinfo /etc/hosts 2>/dev/null")
        .await;
    assert!(!seen.contains(&names[0]), "{seen}");
}

async fn unsupported(bed: Bed) {
    let capabilities = bed.backend.capabilities();
    let wants_network = SandboxSpec {
        network: NetworkPolicy::AllowAll,
        ..SandboxSpec::default()
    };
    let wants_image = SandboxSpec {
        image: Some("somebody/else:latest".into()),
        ..SandboxSpec::default()
    };
    for spec in [wants_network, wants_image] {
        if spec.image.is_none() && spec.required().is_subset(&capabilities) {
            continue;
        }
        let id = bed.id();
        let made = bed.start_as(&id, &spec).await;
        assert_eq!(code(made), ErrorCode::Unsupported.as_str());
        assert!(!bed.has_workspace(&id).await);
    }
}
