//! The system calls that a sandbox has.
//!
//! Two filters are stacked, and the stricter answer wins. The first allows a list
//! and answers "no such system call" to all else, so that programs fall back as on
//! an older kernel. The second, installed last, refuses with "not permitted" what
//! must never work: it would hold even if the first allowed too much.

mod allowed;
mod refused;

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, SeccompRule, TargetArch, sock_filter};

use crate::error::{Failure, Result};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// By system call number; an empty list of rules means "whatever its arguments".
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Both filters as the kernel reads them, in the order of installation.
pub(crate) struct Filters {
    pub allow: Vec<u8>,
    pub refuse: Vec<u8>,
}

impl Filters {
    pub fn build() -> Result<Self> {
        let allow = allowed::numbers().map(|number| (number, Vec::new()));
        let allow = compile(
            allow.collect(),
            SeccompAction::Errno(libc::ENOSYS as u32),
            SeccompAction::Allow,
        )?;
        let refuse = compile(
            refused::rules()?,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::EPERM as u32),
        )?;
        Ok(Self {
            allow: bytes(&allow),
            refuse: bytes(&without_x32(refuse)),
        })
    }
}

fn compile(rules: Rules, otherwise: SeccompAction, then: SeccompAction) -> Result<BpfProgram> {
    SeccompFilter::new(rules, otherwise, then, ARCH)
        .and_then(BpfProgram::try_from)
        .map_err(|error| Failure::because("failed to make a system call filter", error))
}

/// Refuses the x32 numbers first: they are a second table of the same calls, with
/// the same audit architecture, that no rule by number covers (seccomp(2)).
fn without_x32(program: BpfProgram) -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_GE: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let instruction = |code, jf, k| sock_filter { code, jt: 0, jf, k };
    let mut guarded = vec![
        // `nr` is the first field of seccomp_data.
        instruction(LOAD_WORD, 0, 0),
        instruction(JUMP_IF_GE, 1, X32),
        instruction(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ];
    guarded.extend(program);
    guarded
}

fn bytes(program: &BpfProgram) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(program.len() * 8);
    for instruction in program {
        bytes.extend(instruction.code.to_ne_bytes());
        bytes.extend([instruction.jt, instruction.jf]);
        bytes.extend(instruction.k.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_allowed_and_refused_whatever_its_arguments() {
        let refused = refused::rules().unwrap();
        let both: Vec<i64> = allowed::numbers()
            .filter(|number| refused.get(number).is_some_and(Vec::is_empty))
            .collect();
        assert_eq!(both, [0_i64; 0]);
    }

    #[test]
    fn filters_fit_into_the_kernel() {
        let filters = Filters::build().unwrap();
        for filter in [&filters.allow, &filters.refuse] {
            assert_eq!(filter.len() % 8, 0);
            assert!(filter.len() / 8 <= 4096, "{}", filter.len() / 8);
        }
    }
}
