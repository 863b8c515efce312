//! What the filters refuse, and what must work under them.

use std::path::Path;

use crate::support::{Sandbox, Sandboxes};

/// `call(number, arguments...)` gives "ok" or the error's name.
const CALL: &str = "import ctypes, errno, os\n\
    libc = ctypes.CDLL(None, use_errno=True)\n\
    def call(*words):\n\
    \x20   words = [ctypes.c_long(word) for word in words]\n\
    \x20   done = libc.syscall(*words) >= 0\n\
    \x20   return 'ok' if done else errno.errorcode[ctypes.get_errno()]\n";

async fn answers(sandbox: &Sandbox, calls: &[(&str, &[i64])]) -> Vec<(String, String)> {
    let words: Vec<&[i64]> = calls.iter().map(|(_, words)| *words).collect();
    let program = format!("{CALL}for words in {words:?}: print(call(*words))");
    let printed = sandbox.python(&program).await;
    let names = calls.iter().map(|(name, _)| name.to_string());
    names.zip(printed.lines().map(str::to_owned)).collect()
}

async fn assert_all(calls: &[(&str, &[i64])], answer: &str) {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let others: Vec<_> = answers(&sandbox, calls)
        .await
        .into_iter()
        .filter(|(_, given)| given != answer)
        .collect();
    assert_eq!(others, [], "should be {answer}");
}

#[tokio::test]
async fn what_leads_out_of_a_sandbox_is_not_permitted() {
    let new_user = i64::from(libc::CLONE_NEWUSER);
    let signal = i64::from(libc::SIGCHLD);
    assert_all(
        &[
            ("unshare", &[libc::SYS_unshare, new_user]),
            ("setns", &[libc::SYS_setns, 0, 0]),
            (
                "clone of a user namespace",
                &[libc::SYS_clone, new_user | signal],
            ),
            (
                "clone of a network namespace",
                &[libc::SYS_clone, i64::from(libc::CLONE_NEWNET) | signal],
            ),
            ("mount", &[libc::SYS_mount, 0, 0, 0, 0, 0]),
            ("umount2", &[libc::SYS_umount2, 0, 0]),
            ("pivot_root", &[libc::SYS_pivot_root, 0, 0]),
            ("chroot", &[libc::SYS_chroot, 0]),
            ("open_tree", &[libc::SYS_open_tree, 0, 0, 0]),
            ("move_mount", &[libc::SYS_move_mount, 0, 0, 0, 0, 0]),
            ("fsopen", &[libc::SYS_fsopen, 0, 0]),
            ("mount_setattr", &[libc::SYS_mount_setattr, 0, 0, 0, 0, 0]),
            ("ptrace", &[libc::SYS_ptrace, 0, 0, 0, 0]),
            (
                "process_vm_readv",
                &[libc::SYS_process_vm_readv, 1, 0, 0, 0, 0, 0],
            ),
            (
                "process_vm_writev",
                &[libc::SYS_process_vm_writev, 1, 0, 0, 0, 0, 0],
            ),
            ("kcmp", &[libc::SYS_kcmp, 1, 1, 0, 0, 0]),
            ("pidfd_getfd", &[libc::SYS_pidfd_getfd, 0, 0, 0]),
            ("bpf", &[libc::SYS_bpf, 0, 0, 0]),
            (
                "perf_event_open",
                &[libc::SYS_perf_event_open, 0, 0, 0, 0, 0],
            ),
            ("userfaultfd", &[libc::SYS_userfaultfd, 1]),
            ("io_uring_setup", &[libc::SYS_io_uring_setup, 1, 0]),
            ("io_uring_enter", &[libc::SYS_io_uring_enter, 0, 0, 0, 0, 0]),
            (
                "io_uring_register",
                &[libc::SYS_io_uring_register, 0, 0, 0, 0],
            ),
            ("add_key", &[libc::SYS_add_key, 0, 0, 0, 0, 0]),
            ("request_key", &[libc::SYS_request_key, 0, 0, 0, 0]),
            ("keyctl", &[libc::SYS_keyctl, 0, 0, 0, 0, 0]),
            ("kexec_load", &[libc::SYS_kexec_load, 0, 0, 0, 0]),
            ("init_module", &[libc::SYS_init_module, 0, 0, 0]),
            ("finit_module", &[libc::SYS_finit_module, 0, 0, 0]),
            ("delete_module", &[libc::SYS_delete_module, 0, 0]),
            ("syslog", &[libc::SYS_syslog, 3, 0, 0]),
            ("open_by_handle_at", &[libc::SYS_open_by_handle_at, 0, 0, 0]),
            ("quotactl", &[libc::SYS_quotactl, 0, 0, 0, 0]),
            ("reboot", &[libc::SYS_reboot, 0, 0, 0, 0]),
            ("AF_PACKET", &[libc::SYS_socket, 17, 3, 0]),
            ("AF_ALG", &[libc::SYS_socket, 38, 5, 0]),
            ("AF_VSOCK", &[libc::SYS_socket, 40, 1, 0]),
            (
                "AF_VSOCK with more bits",
                &[libc::SYS_socket, (1 << 32) | 40, 1, 0],
            ),
            ("AF_BLUETOOTH", &[libc::SYS_socket, 31, 3, 0]),
            ("NETLINK_KOBJECT_UEVENT", &[libc::SYS_socket, 16, 3, 15]),
            (
                "no address randomisation",
                &[libc::SYS_personality, 0x40000],
            ),
        ],
        "EPERM",
    )
    .await;
}

#[tokio::test]
async fn unknown_calls_look_like_those_of_an_older_kernel() {
    // glibc and Go fall back to clone, whose flags a filter can see.
    assert_all(
        &[
            ("clone3", &[libc::SYS_clone3, 0, 0]),
            ("a call of the future", &[999]),
        ],
        "ENOSYS",
    )
    .await;
}

#[tokio::test]
async fn ordinary_calls_work() {
    assert_all(
        &[
            ("personality", &[libc::SYS_personality, 0xffff_ffff]),
            ("AF_UNIX", &[libc::SYS_socket, 1, 1, 0]),
            ("AF_INET", &[libc::SYS_socket, 2, 1, 0]),
            ("AF_INET6", &[libc::SYS_socket, 10, 1, 0]),
            ("NETLINK_ROUTE", &[libc::SYS_socket, 16, 3, 0]),
            ("membarrier", &[libc::SYS_membarrier, 0, 0, 0]),
            ("getrandom", &[libc::SYS_getrandom, 0, 0, 0]),
            ("close_range", &[libc::SYS_close_range, 100, 200, 0]),
        ],
        "ok",
    )
    .await;
}

/// A second table of the same calls, which rules by number do not cover.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn x32_calls_are_not_permitted() {
    const X32: i64 = 0x4000_0000;
    assert_all(
        &[
            ("getpid", &[X32 + libc::SYS_getpid]),
            ("x32's own ptrace", &[X32 + 521, 0, 0, 0, 0]),
        ],
        "EPERM",
    )
    .await;
}

/// 32 bit programs have numbers of their own, so they are killed at the first call.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn a_call_of_32_bit_programs_kills() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let outcome = sandbox
        .run(&[
            "python3",
            "-c",
            "import ctypes, mmap\n\
             code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n\
             # mov eax, 20 (getpid); int 0x80; ret\n\
             code.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))\n\
             at = ctypes.addressof(ctypes.c_char.from_buffer(code))\n\
             ctypes.CFUNCTYPE(ctypes.c_int)(at)()\n\
             print('survived')",
        ])
        .await;
    assert_eq!(
        (outcome.signal, outcome.stdout.to_text().as_str()),
        (Some(31), "")
    );
}

/// CVE-2017-5226, and CVE-2019-7303: the kernel looks at 32 bits of the number.
#[tokio::test]
async fn nothing_can_be_typed_into_a_terminal() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let program = format!(
        "{CALL}ours, theirs = os.openpty()\n\
         key = ctypes.addressof(ctypes.create_string_buffer(b'x' * 64))\n\
         for request in [0x5412, 0x5412 | 1 << 32, 0x541c, 0x541c | 7 << 40, 0x5413]:\n\
         \x20   print(call({}, theirs, request, key))",
        libc::SYS_ioctl
    );
    assert_eq!(
        sandbox.python(&program).await,
        "EPERM\nEPERM\nEPERM\nEPERM\nok"
    );
}

#[tokio::test]
async fn languages_work_under_the_filters() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let threads = "import threading, multiprocessing, subprocess, tempfile\n\
        from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor\n\
        print(sum(ThreadPoolExecutor(4).map(abs, range(-10, 0))))\n\
        print(sum(ProcessPoolExecutor(2).map(abs, range(-10, 0))))\n\
        print(subprocess.run(['echo', 'child'], capture_output=True).stdout)\n\
        tempfile.TemporaryFile().write(b'x')";
    assert_eq!(sandbox.python(threads).await, "55\n55\nb'child\\n'");
    let c = "printf '#include <pthread.h>\\n#include <stdio.h>\\n\
        void *f(void *x) { puts(\"thread\"); return x; }\\n\
        int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0); }'\
        > t.c && cc -pthread t.c -o t && ./t";
    let node = "node -e 'require(\"fs\").readFile(\"/etc/passwd\", () => \
        require(\"child_process\").exec(\"echo thread\", (e, out) => process.stdout.write(out)))'";
    let java = "printf 'class T { public static void main(String[] a) throws Exception { \
        Thread t = new Thread(() -> System.out.println(\"thread\")); t.start(); t.join(); } }' \
        > T.java && java T.java";
    for (program, script) in [
        ("/usr/bin/cc", c),
        ("/usr/bin/node", node),
        ("/usr/bin/javac", java),
    ] {
        if !Path::new(program).exists() {
            continue;
        }
        let outcome = sandbox.sh(script).await;
        assert_eq!(
            (outcome.exit_code, outcome.stdout.to_text().as_str()),
            (0, "thread\n"),
            "{program}: {}",
            outcome.stderr.to_text()
        );
    }
}
