//! What must never work, whatever else is allowed.

use seccompiler::{
    SeccompCmpArgLen::{self, Dword},
    SeccompCmpOp::{self, Eq, MaskedEq, Ne},
    SeccompCondition, SeccompRule,
};

use super::Rules;
use crate::error::{Failure, Result};

/// Refused whatever their arguments.
#[rustfmt::skip]
const ALWAYS: &[i64] = &[
    // Namespaces and mounts.
    libc::SYS_unshare, libc::SYS_setns, libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root,
    libc::SYS_chroot, libc::SYS_open_tree, libc::SYS_move_mount, libc::SYS_fsopen,
    libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fspick, libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // Other processes.
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_kcmp,
    libc::SYS_pidfd_getfd, libc::SYS_process_madvise, libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Parts of the kernel with a long record of holes, which no program here needs.
    libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_userfaultfd, libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_add_key,
    libc::SYS_request_key, libc::SYS_keyctl, libc::SYS_fanotify_init, libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl, libc::SYS_quotactl, libc::SYS_quotactl_fd,
    // The machine itself.
    libc::SYS_kexec_load, libc::SYS_kexec_file_load, libc::SYS_init_module,
    libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_reboot, libc::SYS_swapon,
    libc::SYS_swapoff, libc::SYS_acct, libc::SYS_syslog, libc::SYS_settimeofday,
    libc::SYS_clock_settime, libc::SYS_sethostname, libc::SYS_setdomainname, libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALWAYS_LEGACY: &[i64] = &[
    libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt, libc::SYS_uselib, libc::SYS_ustat,
    libc::SYS_sysfs, libc::SYS__sysctl,
];

#[cfg(not(target_arch = "x86_64"))]
const ALWAYS_LEGACY: &[i64] = &[];

/// Each makes a namespace. CLONE_NEWTIME is not among them: clone takes it for a signal.
const NEW_NAMESPACE: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Put characters into a terminal's input, or paste into it.
const TERMINAL_INJECTION: [u64; 2] = [0x5412, 0x541c];

/// The usual families; netlink for what lists the interfaces.
const FAMILIES: [i32; 4] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
];

/// Linux, 32 bit addresses, and asking which one it is.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

pub(super) fn rules() -> Result<Rules> {
    let mut rules: Rules = ALWAYS
        .iter()
        .chain(ALWAYS_LEGACY)
        .map(|number| (*number, Vec::new()))
        .collect();
    // Compared are only the bits that the kernel looks at (CVE-2019-7303): it takes
    // an ioctl's number and a socket's family as 32 bits, whatever is above.
    rules.insert(
        libc::SYS_ioctl,
        TERMINAL_INJECTION
            .iter()
            .map(|request| rule([(1, Dword, Eq, *request)]))
            .collect::<Result<_>>()?,
    );
    rules.insert(
        libc::SYS_clone,
        NEW_NAMESPACE
            .iter()
            .map(|flag| {
                let flag = u64::from(flag.cast_unsigned());
                rule([(0, Dword, MaskedEq(flag), flag)])
            })
            .collect::<Result<_>>()?,
    );
    let unusual_family = || rule(FAMILIES.map(|family| (0, Dword, Ne, family as u64)));
    rules.insert(
        libc::SYS_socket,
        vec![
            unusual_family()?,
            rule([
                (0, Dword, Eq, libc::AF_NETLINK as u64),
                (2, Dword, Ne, libc::NETLINK_ROUTE as u64),
            ])?,
        ],
    );
    rules.insert(libc::SYS_socketpair, vec![unusual_family()?]);
    rules.insert(
        libc::SYS_personality,
        vec![rule(PERSONALITIES.map(|value| (0, Dword, Ne, value)))?],
    );
    Ok(rules)
}

type Condition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

/// Matches when all conditions do.
fn rule<const N: usize>(conditions: [Condition; N]) -> Result<SeccompRule> {
    conditions
        .into_iter()
        .map(|(argument, width, operator, value)| {
            SeccompCondition::new(argument, width, operator, value)
        })
        .collect::<Result<Vec<_>, _>>()
        .and_then(SeccompRule::new)
        .map_err(|error| Failure::because("failed to make a system call rule", error))
}
