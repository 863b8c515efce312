//! A seccomp profile that a container is to have: it may not permit what would
//! make it as good as none.
//!
//! A profile is JSON in a text, which the daemon decodes once more; so it is read
//! and written anew like a body.

use serde_json::{Value, json};

use crate::{
    fields::Fields,
    json,
    refusal::{Refusal, Result, quoted},
};

/// What a call that no rule names may lead to.
const REFUSING: [&str; 5] = [
    "SCMP_ACT_ERRNO",
    "SCMP_ACT_KILL",
    "SCMP_ACT_KILL_PROCESS",
    "SCMP_ACT_KILL_THREAD",
    "SCMP_ACT_TRAP",
];
const ALLOW: &str = "SCMP_ACT_ALLOW";
/// What Docker's own profile permits to no container without capabilities, and
/// what ours refuses by name.
const NEVER: &[&str] = &[
    "acct",
    "add_key",
    "bpf",
    "clock_settime",
    "clone3",
    "create_module",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mount",
    "mount_setattr",
    "move_mount",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "stime",
    "swapoff",
    "swapon",
    "sysfs",
    "_sysctl",
    "syslog",
    "umount",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vm86",
    "vm86old",
];
/// Flags of clone that make namespaces.
const NAMESPACES: u64 = 0x7e02_0000;
/// Rules that a profile may have.
const MAX_RULES: usize = 1024;

/// The profile as it is sent on.
pub fn check(text: &str) -> Result<String> {
    let refuse = |why: &str| Refusal::forbidden(format!("HostConfig.SecurityOpt: seccomp {why}"));
    let profile = json::parse(text.as_bytes())
        .map_err(|_| refuse("must be a profile, written as JSON: neither a word nor a file"))?;
    let mut fields = Fields::open("seccomp", profile)?;
    let rule = "must refuse calls";
    let action = fields.text("defaultAction", rule, |action| REFUSING.contains(&action))?;
    if action.is_none() {
        return Err(fields.refuse("defaultAction", rule));
    }
    fields.number("defaultErrnoRet", 1..=4095)?;
    keep_words(&mut fields, "architectures")?;
    if let Some(map) = fields.take_list("archMap")? {
        let map: Vec<Value> = map.into_iter().map(architecture).collect::<Result<_>>()?;
        fields.keep("archMap", map);
    }
    let rules = fields.take_list("syscalls")?.unwrap_or_default();
    if rules.len() > MAX_RULES {
        return Err(fields.refuse("syscalls", "are too many"));
    }
    let mut kept = Vec::new();
    for rule in rules {
        kept.extend(check_rule(rule)?);
    }
    fields.keep("syscalls", kept);
    Ok(fields.close()?.to_string())
}

fn architecture(value: Value) -> Result<Value> {
    let mut fields = Fields::open("seccomp.archMap", value)?;
    fields.text("architecture", "is not a word", is_word)?;
    keep_words(&mut fields, "subArchitectures")?;
    fields.close()
}

/// `None`: the rule is for capabilities, which no container of ours has.
fn check_rule(rule: Value) -> Result<Option<Value>> {
    let mut fields = Fields::open("seccomp.syscalls", rule)?;
    fields.take("comment");
    let names = fields.take_texts("names")?.unwrap_or_default();
    if names.is_empty() || !names.iter().all(|name| is_word(name)) {
        return Err(fields.refuse("names", "must be names of system calls"));
    }
    let action = fields.text("action", "is not one that there is", |action| {
        action == ALLOW || action == "SCMP_ACT_LOG" || REFUSING.contains(&action)
    })?;
    let action = action.ok_or_else(|| fields.refuse("action", "must be given"))?;
    fields.number("errnoRet", 1..=4095)?;
    let arguments = arguments(&mut fields)?;
    let included = conditions(&mut fields, "includes")?;
    let needs_rights = !included["caps"].is_null();
    let is_s390 = |arch: &Value| arch == "s390" || arch == "s390x";
    let only_s390 = included["arches"]
        .as_array()
        .is_some_and(|arches| arches.iter().all(is_s390));
    let flags_at = u8::from(only_s390);
    // A rule that a capability takes away is in force without it.
    conditions(&mut fields, "excludes")?;
    if !REFUSING.contains(&action.as_str()) && !needs_rights {
        for name in &names {
            let permitted = match name.as_str() {
                "clone" => arguments
                    .iter()
                    .any(|argument| makes_no_namespace(argument, flags_at)),
                name => !NEVER.contains(&name),
            };
            if !permitted {
                return Err(Refusal::forbidden(format!(
                    "HostConfig.SecurityOpt: a seccomp profile may not permit {}",
                    quoted(name)
                )));
            }
        }
    }
    fields.keep("names", names);
    let rule = fields.close()?;
    Ok((!needs_rights).then_some(rule))
}

/// All of a rule's conditions must hold, so one of these is enough. Clone has its
/// flags first, but on s390.
fn makes_no_namespace(argument: &Value, flags_at: u8) -> bool {
    argument["index"] == flags_at
        && argument["op"] == "SCMP_CMP_MASKED_EQ"
        && argument["value"]
            .as_u64()
            .is_some_and(|mask| mask & NAMESPACES == NAMESPACES)
        && argument["valueTwo"] == 0
}

fn arguments(fields: &mut Fields) -> Result<Vec<Value>> {
    let mut kept: Vec<Value> = Vec::new();
    for argument in fields.take_list("args")?.unwrap_or_default() {
        let mut argument = Fields::open("seccomp.syscalls.args", argument)?;
        let index = argument.number("index", 0..=5)?.unwrap_or(0);
        let mut value = |name: &str| match argument.take(name) {
            None => Ok(0),
            Some(value) => value
                .as_u64()
                .ok_or_else(|| argument.refuse(name, "is not a whole number")),
        };
        let (one, two) = (value("value")?, value("valueTwo")?);
        let operators = ["NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"];
        let op = argument.text("op", "is not one that there is", |op| {
            op.strip_prefix("SCMP_CMP_")
                .is_some_and(|op| operators.contains(&op))
        })?;
        let op = op.ok_or_else(|| argument.refuse("op", "must be given"))?;
        argument.close()?;
        // With one argument compared twice, the daemon takes either as enough.
        if kept.iter().any(|other| other["index"] == index) {
            return Err(fields.refuse("args", "must compare each argument once"));
        }
        kept.push(json!({"index": index, "value": one, "valueTwo": two, "op": op}));
    }
    if !kept.is_empty() {
        fields.keep("args", kept.clone());
    }
    Ok(kept)
}

/// Keeps when a rule is in force, and tells it.
fn conditions(fields: &mut Fields, name: &str) -> Result<Value> {
    let Some(value) = fields.take(name) else {
        return Ok(Value::Null);
    };
    let mut conditions = Fields::open(&fields.at(name), value)?;
    keep_words(&mut conditions, "caps")?;
    keep_words(&mut conditions, "arches")?;
    conditions.text("minKernel", "is not a version", |text| {
        text.len() <= 16 && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    })?;
    let conditions = conditions.close()?;
    fields.keep(name, conditions.clone());
    Ok(conditions)
}

fn keep_words(fields: &mut Fields, name: &str) -> Result<()> {
    let Some(words) = fields.take_texts(name)? else {
        return Ok(());
    };
    if !words.iter().all(|word| is_word(word)) {
        return Err(fields.refuse(name, "are not words"));
    }
    fields.keep(name, words);
    Ok(())
}

fn is_word(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Value {
        json!({
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": 38,
            "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
            "syscalls": [
                {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"},
                {"names": ["clone"], "action": "SCMP_ACT_ALLOW",
                 "args": [{"index": 0, "value": NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
                 "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
                {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38},
            ],
        })
    }

    fn of(profile: &Value) -> Result<Value> {
        check(&profile.to_string()).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn a_profile_that_refuses_is_sent_on_as_it_was_understood() {
        assert_eq!(of(&good()).unwrap(), good());
    }

    #[test]
    fn rules_for_capabilities_that_nobody_has_are_left_out() {
        let mut profile = good();
        profile["syscalls"].as_array_mut().unwrap().push(json!({
            "names": ["mount", "clone3"], "action": "SCMP_ACT_ALLOW",
            "includes": {"caps": ["CAP_SYS_ADMIN"]},
        }));
        assert_eq!(of(&profile).unwrap(), good());
    }

    #[test]
    fn a_profile_that_is_as_good_as_none_is_refused() {
        for text in [
            "unconfined",
            "builtin",
            "",
            "/etc/passwd",
            "{}",
            "[]",
            "null",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
        for (member, value) in [
            ("defaultAction", json!("SCMP_ACT_ALLOW")),
            ("defaultAction", json!("SCMP_ACT_LOG")),
            ("defaultAction", json!("SCMP_ACT_TRACE")),
            ("defaultAction", json!("SCMP_ACT_NOTIFY")),
            ("DefaultAction", json!("SCMP_ACT_ALLOW")),
            ("listenerPath", json!("/run/x")),
            ("flags", json!(["SECCOMP_FILTER_FLAG_SPEC_ALLOW"])),
        ] {
            let mut profile = good();
            profile[member] = value.clone();
            assert!(of(&profile).is_err(), "{member} {value}");
        }
        for rule in [
            json!({"names": ["mount"], "action": "SCMP_ACT_ALLOW"}),
            json!({"names": ["read", "unshare"], "action": "SCMP_ACT_ALLOW"}),
            json!({"names": ["bpf"], "action": "SCMP_ACT_LOG"}),
            json!({"names": ["clone"], "action": "SCMP_ACT_ALLOW"}),
            json!({"names": ["clone3"], "action": "SCMP_ACT_ALLOW"}),
            json!({"names": ["read"], "action": "SCMP_ACT_NOTIFY"}),
            json!({"name": "mount", "action": "SCMP_ACT_ALLOW"}),
            json!({"names": ["mount"], "action": "SCMP_ACT_ALLOW", "excludes": {"caps": ["X"]}}),
            json!({"names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["x"]}}),
            json!({"names": ["clone"], "action": "SCMP_ACT_ALLOW",
                   "args": [{"index": 0, "value": 1, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]}),
            json!({"names": ["clone"], "action": "SCMP_ACT_ALLOW",
                   "args": [{"index": 0, "value": NAMESPACES, "op": "SCMP_CMP_MASKED_EQ"},
                            {"index": 0, "value": 0, "op": "SCMP_CMP_GE"}]}),
        ] {
            let mut profile = good();
            profile["syscalls"]
                .as_array_mut()
                .unwrap()
                .push(rule.clone());
            assert!(of(&profile).is_err(), "{rule}");
        }
    }
}
