//! Which system calls a sandbox may make.
//!
//! Two filters stand on each other, and the stricter answer counts: one refuses
//! what is dangerous with EPERM, one allows what programs need, after the
//! example of Docker's default profile, and answers ENOSYS to all else, as a
//! kernel that does not have the call would.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Seek as _, Write as _},
    os::fd::OwnedFd,
};

use libc::*;
use rustix::fs::{MemfdFlags, memfd_create};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen::{Dword, Qword}, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that every program may make; some arguments of some are refused below.
const ALLOWED: &[i64] = &[
    SYS_accept, SYS_accept4, SYS_bind, SYS_brk, SYS_capget, SYS_capset, SYS_chdir,
    SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_clone, SYS_close,
    SYS_close_range, SYS_connect, SYS_copy_file_range, SYS_dup, SYS_dup3, SYS_epoll_create1,
    SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2, SYS_execve, SYS_execveat,
    SYS_exit, SYS_exit_group, SYS_faccessat, SYS_faccessat2, SYS_fadvise64, SYS_fallocate,
    SYS_fchdir, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_fcntl, SYS_fdatasync,
    SYS_fgetxattr, SYS_flistxattr, SYS_flock, SYS_fremovexattr, SYS_fsetxattr, SYS_fstat,
    SYS_fstatfs, SYS_fsync, SYS_ftruncate, SYS_futex, SYS_futex_waitv, SYS_get_robust_list,
    SYS_getcpu, SYS_getcwd, SYS_getdents64, SYS_getegid, SYS_geteuid, SYS_getgid, SYS_getgroups,
    SYS_getitimer, SYS_getpeername, SYS_getpgid, SYS_getpid, SYS_getppid, SYS_getpriority,
    SYS_getrandom, SYS_getresgid, SYS_getresuid, SYS_getrlimit, SYS_getrusage, SYS_getsid,
    SYS_getsockname, SYS_getsockopt, SYS_gettid, SYS_gettimeofday, SYS_getuid, SYS_getxattr,
    SYS_inotify_add_watch, SYS_inotify_init1, SYS_inotify_rm_watch, SYS_io_cancel, SYS_io_destroy,
    SYS_io_getevents, SYS_io_setup, SYS_io_submit, SYS_ioctl, SYS_ioprio_get, SYS_ioprio_set,
    SYS_kill, SYS_landlock_add_rule, SYS_landlock_create_ruleset, SYS_landlock_restrict_self,
    SYS_lgetxattr, SYS_linkat, SYS_listen, SYS_listxattr, SYS_llistxattr, SYS_lremovexattr,
    SYS_lseek, SYS_lsetxattr, SYS_madvise, SYS_membarrier, SYS_memfd_create, SYS_mincore,
    SYS_mkdirat, SYS_mknodat, SYS_mlock, SYS_mlock2, SYS_mlockall, SYS_mmap, SYS_mprotect,
    SYS_mq_getsetattr, SYS_mq_notify, SYS_mq_open, SYS_mq_timedreceive, SYS_mq_timedsend,
    SYS_mq_unlink, SYS_mremap, SYS_msgctl, SYS_msgget, SYS_msgrcv, SYS_msgsnd, SYS_msync,
    SYS_munlock, SYS_munlockall, SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_openat,
    SYS_openat2, SYS_personality, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_pipe2, SYS_pkey_alloc,
    SYS_pkey_free, SYS_pkey_mprotect, SYS_ppoll, SYS_prctl, SYS_pread64, SYS_preadv, SYS_preadv2,
    SYS_prlimit64, SYS_pselect6, SYS_pwrite64, SYS_pwritev, SYS_pwritev2, SYS_read, SYS_readahead,
    SYS_readlinkat, SYS_readv, SYS_recvfrom, SYS_recvmmsg, SYS_recvmsg, SYS_remap_file_pages,
    SYS_removexattr, SYS_renameat, SYS_renameat2, SYS_restart_syscall, SYS_rseq,
    SYS_rt_sigaction, SYS_rt_sigpending, SYS_rt_sigprocmask, SYS_rt_sigqueueinfo,
    SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_rt_tgsigqueueinfo,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_getaffinity,
    SYS_sched_getattr, SYS_sched_getparam, SYS_sched_getscheduler, SYS_sched_rr_get_interval,
    SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler,
    SYS_sched_yield, SYS_seccomp, SYS_semctl, SYS_semget, SYS_semop, SYS_semtimedop,
    SYS_sendfile, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_set_robust_list, SYS_set_tid_address,
    SYS_setfsgid, SYS_setfsuid, SYS_setgid, SYS_setgroups, SYS_setitimer, SYS_setpgid,
    SYS_setpriority, SYS_setregid, SYS_setresgid, SYS_setresuid, SYS_setreuid, SYS_setrlimit,
    SYS_setsid, SYS_setsockopt, SYS_setuid, SYS_setxattr, SYS_shmat, SYS_shmctl, SYS_shmdt,
    SYS_shmget, SYS_shutdown, SYS_sigaltstack, SYS_signalfd4, SYS_socket, SYS_socketpair,
    SYS_splice, SYS_statfs, SYS_statx, SYS_symlinkat, SYS_sync, SYS_sync_file_range, SYS_syncfs,
    SYS_sysinfo, SYS_tee, SYS_tgkill, SYS_timer_create, SYS_timer_delete, SYS_timer_getoverrun,
    SYS_timer_gettime, SYS_timer_settime, SYS_timerfd_create, SYS_timerfd_gettime,
    SYS_timerfd_settime, SYS_times, SYS_tkill, SYS_truncate, SYS_umask, SYS_uname, SYS_unlinkat,
    SYS_utimensat, SYS_vmsplice, SYS_wait4, SYS_waitid, SYS_write, SYS_writev,
];

/// Older forms that only x86 has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[
    SYS_access, SYS_alarm, SYS_arch_prctl, SYS_chmod, SYS_chown, SYS_creat, SYS_dup2,
    SYS_epoll_create, SYS_epoll_wait, SYS_eventfd, SYS_fork, SYS_futimesat, SYS_getdents,
    SYS_getpgrp, SYS_inotify_init, SYS_lchown, SYS_link, SYS_lstat, SYS_mkdir, SYS_mknod,
    SYS_open, SYS_pause, SYS_pipe, SYS_poll, SYS_readlink, SYS_rename, SYS_rmdir, SYS_select,
    SYS_signalfd, SYS_stat, SYS_symlink, SYS_time, SYS_unlink, SYS_utime, SYS_utimes, SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[i64] = &[];

/// Calls that are refused by name, so that a program learns that it may not.
const REFUSED: &[i64] = &[
    SYS_acct, SYS_add_key, SYS_adjtimex, SYS_bpf, SYS_chroot, SYS_clock_adjtime,
    SYS_clock_settime, SYS_delete_module, SYS_fanotify_init, SYS_finit_module, SYS_fsconfig,
    SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_init_module, SYS_io_uring_enter,
    SYS_io_uring_register, SYS_io_uring_setup, SYS_kcmp, SYS_kexec_file_load, SYS_kexec_load,
    SYS_keyctl, SYS_mount, SYS_mount_setattr, SYS_move_mount, SYS_name_to_handle_at,
    SYS_nfsservctl, SYS_open_by_handle_at, SYS_open_tree, SYS_perf_event_open, SYS_pidfd_getfd,
    SYS_pivot_root, SYS_process_madvise, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace,
    SYS_quotactl, SYS_quotactl_fd, SYS_reboot, SYS_request_key, SYS_setdomainname,
    SYS_sethostname, SYS_setns, SYS_settimeofday, SYS_swapoff, SYS_swapon, SYS_syslog,
    SYS_umount2, SYS_unshare, SYS_userfaultfd, SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    SYS_ioperm, SYS_iopl, SYS_lookup_dcookie, SYS_modify_ldt, SYS_uselib, SYS_ustat, SYS_sysfs,
    SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Every flag of clone(2) that makes a namespace.
const NEW_NAMESPACE: &[i32] = &[
    CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET,
    CLONE_NEWCGROUP,
];
/// Families that a sandbox without a network can use.
const SOCKET_FAMILIES: &[i32] = &[AF_UNIX, AF_INET, AF_INET6, AF_NETLINK];
/// Puts characters into a terminal's input (CVE-2017-5226), and its twin.
const TERMINAL_INJECTION: &[u64] = &[TIOCSTI as u64, TIOCLINUX as u64];

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions)
}

fn refused_arguments() -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    let clone = NEW_NAMESPACE
        .iter()
        .map(|flag| {
            let flag = *flag as u32 as u64;
            let set = SeccompCmpOp::MaskedEq(flag);
            rule(vec![SeccompCondition::new(0, Qword, set, flag)?])
        })
        .collect::<Result<_, _>>()?;
    rules.insert(SYS_clone, clone);
    // The kernel looks at the low half alone (CVE-2019-7303).
    let ioctl = TERMINAL_INJECTION
        .iter()
        .map(|request| rule(vec![SeccompCondition::new(1, Dword, SeccompCmpOp::Eq, *request)?]))
        .collect::<Result<_, _>>()?;
    rules.insert(SYS_ioctl, ioctl);
    let other_family = SOCKET_FAMILIES
        .iter()
        .map(|family| SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, *family as u64))
        .collect::<Result<Vec<_>, _>>()?;
    rules.insert(SYS_socket, vec![rule(other_family.clone())?]);
    rules.insert(SYS_socketpair, vec![rule(other_family)?]);
    // Asking is fine; anything but Linux's default changes how memory is laid out.
    let personality = vec![
        SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, 0)?,
        SeccompCondition::new(0, Dword, SeccompCmpOp::Ne, 0xffff_ffff)?,
    ];
    rules.insert(SYS_personality, vec![rule(personality)?]);
    for call in REFUSED.iter().chain(REFUSED_HERE) {
        rules.insert(*call, Vec::new());
    }
    Ok(rules)
}

fn compile(rules: Rules, hit: SeccompAction, miss: SeccompAction) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, miss, hit, arch).map_err(io::Error::other)?;
    BpfProgram::try_from(filter).map_err(io::Error::other)
}

/// The two filters, in the order in which they are installed.
fn filters() -> io::Result<[BpfProgram; 2]> {
    let allowed = ALLOWED
        .iter()
        .chain(ALLOWED_HERE)
        .chain(REFUSED)
        .chain(REFUSED_HERE)
        .map(|call| (*call, Vec::new()))
        .collect();
    let allow = compile(
        allowed,
        SeccompAction::Allow,
        SeccompAction::Errno(ENOSYS as u32),
    )?;
    let refuse = compile(
        refused_arguments().map_err(io::Error::other)?,
        SeccompAction::Errno(EPERM as u32),
        SeccompAction::Allow,
    )?;
    Ok([without_x32(allow), refuse])
}

/// Numbers of the x32 ABI pass for x86_64 ones but mean other calls: none is known.
fn without_x32(program: BpfProgram) -> BpfProgram {
    if !cfg!(target_arch = "x86_64") {
        return program;
    }
    const X32_BIT: u32 = 0x4000_0000;
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let mut guarded = vec![
        // The call's number is the first field of seccomp_data.
        instruction(BPF_LD | BPF_W | BPF_ABS, 0, 0, 0),
        instruction(BPF_JMP | BPF_JGE | BPF_K, 0, 1, X32_BIT),
        instruction(BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS as u32),
    ];
    guarded.extend(program);
    guarded
}

/// The filters in the form that bubblewrap reads from a descriptor.
pub(crate) struct Filters([Vec<u8>; 2]);

impl Filters {
    pub fn new() -> io::Result<Self> {
        Ok(Self(filters()?.map(|program| {
            program
                .iter()
                .flat_map(|i| {
                    let mut bytes = i.code.to_ne_bytes().to_vec();
                    bytes.extend([i.jt, i.jf]);
                    bytes.extend(i.k.to_ne_bytes());
                    bytes
                })
                .collect()
        })))
    }

    /// A descriptor for each filter; bubblewrap reads it to the end.
    pub fn descriptors(&self) -> io::Result<[OwnedFd; 2]> {
        let [first, second] = &self.0;
        Ok([memory_file(first)?, memory_file(second)?])
    }
}

pub(crate) fn memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("sandbox", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_both_allowed_and_refused() {
        let allowed: std::collections::BTreeSet<_> = ALLOWED.iter().chain(ALLOWED_HERE).collect();
        for call in REFUSED.iter().chain(REFUSED_HERE) {
            assert!(!allowed.contains(call), "{call}");
        }
        // clone3's flags are behind a pointer; without it libraries use clone.
        assert!(!allowed.contains(&SYS_clone3));
    }

    #[test]
    fn the_filters_fit_into_the_kernel() {
        for filter in filters().unwrap() {
            assert!(filter.len() < 4096, "{}", filter.len());
        }
    }
}
