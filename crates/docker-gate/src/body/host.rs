//! `HostConfig` of a container: what of the host it gets.

use serde_json::{Map, Value, json};

use super::{
    container::Role,
    mounts,
    resources::{self, Needed},
    seccomp,
};
use crate::{
    fields::Fields,
    policy::Policy,
    refusal::{Refusal, Result},
};

const NAME: &str = "HostConfig";
const NO_NEW_PRIVILEGES: [&str; 3] = [
    "no-new-privileges",
    "no-new-privileges:true",
    "no-new-privileges=true",
];
const SECCOMP: &str = "seccomp=";
/// With `cdi`, Docker's other driver, a device is whatever a file of the host says.
const GPU_DRIVERS: [&str; 2] = ["", "nvidia"];
const GPU_ABILITIES: [&str; 4] = ["gpu", "nvidia", "compute", "utility"];

/// What the engine covers itself; a list of a caller's own stands in its place.
const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

#[derive(Debug)]
pub struct Host {
    pub body: Value,
    pub volumes: Vec<String>,
}

pub fn check(policy: &Policy, role: Role, host: Value) -> Result<Host> {
    let mut fields = Fields::open(NAME, host)?;
    let runs = role == Role::Sandbox;

    let mounts = mounts::check(&mut fields, role)?;
    resources::keep(
        &mut fields,
        if runs {
            Needed::Limits
        } else {
            Needed::Nothing
        },
    )?;
    let network = fields.text("NetworkMode", "is not a network's name", |_| true)?;
    policy.check_network(network.as_deref())?;
    let runtime = fields.text("Runtime", "is not a runtime's name", |_| true)?;
    if runs || runtime.is_some() {
        policy.check_runtime(runtime.as_deref())?;
    }
    let ipc = fields.text("IpcMode", "must be `private`", |mode| {
        ["private", "none"].contains(&mode)
    })?;
    // None of these is what Docker does by itself.
    for (name, rule, given) in [
        ("IpcMode", "`private`", ipc.is_some()),
        (
            "ReadonlyRootfs",
            "true",
            fields.flag("ReadonlyRootfs")? == Some(true),
        ),
        ("CapDrop", "[\"ALL\"]", no_capabilities(&mut fields)?),
        (
            "SecurityOpt",
            "[\"no-new-privileges:true\"]",
            no_new_privileges(&mut fields)?,
        ),
        ("LogConfig", "{\"Type\": \"none\"}", no_log(&mut fields)?),
    ] {
        if runs && !given {
            return Err(fields.refuse(name, &format!("must be given, as {rule}")));
        }
    }
    fields.text("CgroupnsMode", "must be `private`", |mode| {
        mode == "private"
    })?;
    masked(&mut fields)?;
    fields.flag("Init")?;
    fields.flag("AutoRemove")?;
    fields.number("OomScoreAdj", 0..=1000)?;
    gpus(&mut fields, policy)?;
    Ok(Host {
        body: fields.close()?,
        volumes: mounts,
    })
}

fn no_capabilities(fields: &mut Fields) -> Result<bool> {
    let Some(dropped) = fields.take_texts("CapDrop")? else {
        return Ok(false);
    };
    if dropped != ["ALL"] {
        return Err(fields.refuse("CapDrop", "must be [\"ALL\"]"));
    }
    fields.keep("CapDrop", dropped);
    Ok(true)
}

fn no_new_privileges(fields: &mut Fields) -> Result<bool> {
    let mut given = false;
    let mut profile = None;
    for option in fields.take_texts("SecurityOpt")?.unwrap_or_default() {
        if NO_NEW_PRIVILEGES.contains(&option.as_str()) && !given {
            given = true;
        } else if let Some(text) = option.strip_prefix(SECCOMP)
            && profile.is_none()
        {
            profile = Some(format!("{SECCOMP}{}", seccomp::check(text)?));
        } else {
            return Err(fields.refuse(
                "SecurityOpt",
                "may have `no-new-privileges:true` and a seccomp profile, once each",
            ));
        }
    }
    let kept = given.then(|| NO_NEW_PRIVILEGES[1].to_owned());
    let kept: Vec<String> = kept.into_iter().chain(profile).collect();
    if !kept.is_empty() {
        fields.keep("SecurityOpt", kept);
    }
    Ok(given)
}

/// More may be covered than the engine does, and not less.
fn masked(fields: &mut Fields) -> Result<()> {
    let Some(paths) = fields.take_texts("MaskedPaths")? else {
        return Ok(());
    };
    let plain = |path: &String| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/_.-".contains(&b);
        (path.starts_with("/proc/") || path.starts_with("/sys/"))
            && path.bytes().all(allowed)
            && !path.split('/').any(|part| part == "..")
    };
    let covers = |path: &&str| paths.iter().any(|given| given == path);
    if !paths.iter().all(plain) {
        return Err(fields.refuse("MaskedPaths", "may be paths below /proc and /sys"));
    }
    if let Some(missing) = MASKED.iter().find(|path| !covers(path)) {
        return Err(fields.refuse("MaskedPaths", &format!("must have `{missing}` in it")));
    }
    fields.keep("MaskedPaths", paths);
    Ok(())
}

/// What a sandbox says goes to the service, and fills no disk of the daemon.
fn no_log(fields: &mut Fields) -> Result<bool> {
    let Some(log) = fields.take("LogConfig") else {
        return Ok(false);
    };
    let mut log = Fields::open(&fields.at("LogConfig"), log)?;
    let kind = log.text("Type", "must be `none`", |kind| kind == "none")?;
    fields.keep("LogConfig", log.close()?);
    Ok(kind.is_some())
}

fn gpus(fields: &mut Fields, policy: &Policy) -> Result<()> {
    let Some(requests) = fields.take_list("DeviceRequests")? else {
        return Ok(());
    };
    if !policy.allow_gpu {
        return Err(fields.refuse("DeviceRequests", "is for --allow-gpu to permit"));
    }
    let requests: Vec<Value> = requests.into_iter().map(gpu).collect::<Result<_>>()?;
    fields.keep("DeviceRequests", requests);
    Ok(())
}

fn gpu(request: Value) -> Result<Value> {
    let mut fields = Fields::open("HostConfig.DeviceRequests", request)?;
    fields.text("Driver", "must be `nvidia`", |driver| {
        GPU_DRIVERS.contains(&driver)
    })?;
    fields.number("Count", -1..=64)?;
    if let Some(ids) = fields.take_texts("DeviceIDs")? {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-:".contains(&b);
        if !ids.iter().all(|id| !id.is_empty() && id.bytes().all(plain)) {
            return Err(fields.refuse("DeviceIDs", "are not the ids of GPUs"));
        }
        fields.keep("DeviceIDs", ids);
    }
    let abilities = fields.take_list("Capabilities")?.unwrap_or_default();
    let known = |ability: &Value| {
        ability
            .as_str()
            .is_some_and(|text| GPU_ABILITIES.contains(&text))
    };
    // One set that has `gpu`: without it any other driver could answer.
    let is_gpu = |set: &Value| {
        set.as_array()
            .is_some_and(|set| set.iter().all(known) && set.contains(&json!("gpu")))
    };
    if abilities.is_empty() || !abilities.iter().all(is_gpu) {
        return Err(fields.refuse("Capabilities", "must be sets of gpu, compute and utility"));
    }
    fields.keep("Capabilities", abilities);
    fields.close()
}

/// Only the size of the writable layer.
pub fn size_option(what: &str, options: Map<String, Value>) -> Result<Map<String, Value>> {
    for (name, value) in &options {
        if name != "size" || !value.as_str().is_some_and(is_size) {
            return Err(Refusal::forbidden(format!(
                "{what} may have a `size` like `512m`, and nothing else"
            )));
        }
    }
    Ok(options)
}

pub fn is_size(text: &str) -> bool {
    let number = text.trim_end_matches(|c: char| "bBkKmMgGtT".contains(c));
    let unit = text.len() - number.len();
    unit <= 2
        && (1..=18).contains(&number.len())
        && number.bytes().all(|b| b.is_ascii_digit())
        && number.bytes().any(|b| b != b'0')
}

#[cfg(test)]
mod tests {
    use super::super::container::tests::{check, helper, sandbox};
    use crate::policy::Policy;
    use serde_json::{Value, json};

    fn refused(policy: &Policy, member: &str, value: &Value) {
        for mut body in [sandbox(), helper()] {
            body["HostConfig"][member] = value.clone();
            assert!(check(policy, &body).is_err(), "{member} {value}");
        }
    }

    #[test]
    fn nothing_of_the_host_is_given() {
        for (member, value) in [
            ("Binds", json!(["/:/host"])),
            ("Privileged", json!(true)),
            ("CapAdd", json!(["SYS_ADMIN"])),
            ("CapDrop", json!(["NET_RAW"])),
            ("CapDrop", json!(["ALL", "x"])),
            ("Devices", json!([{"PathOnHost": "/dev/sda"}])),
            ("DeviceCgroupRules", json!(["b *:* rwm"])),
            (
                "DeviceRequests",
                json!([{"Capabilities": [["gpu"]], "Count": -1}]),
            ),
            ("PidMode", json!("host")),
            ("PidMode", json!("container:abc")),
            ("UTSMode", json!("host")),
            ("IpcMode", json!("host")),
            ("IpcMode", json!("shareable")),
            ("UsernsMode", json!("host")),
            ("CgroupnsMode", json!("host")),
            ("NetworkMode", json!("host")),
            ("NetworkMode", json!("bridge")),
            ("NetworkMode", json!("container:abc")),
            ("NetworkMode", json!("")),
            ("VolumesFrom", json!(["other"])),
            ("Sysctls", json!({"kernel.core_pattern": "|/x"})),
            ("CgroupParent", json!("/")),
            ("Cgroup", json!("x")),
            ("ExtraHosts", json!(["a:1.2.3.4"])),
            ("Dns", json!(["1.1.1.1"])),
            ("Links", json!(["a:b"])),
            ("PortBindings", json!({"80/tcp": [{"HostPort": "80"}]})),
            ("PublishAllPorts", json!(true)),
            ("StorageOpt", json!({"dm.basesize": "1"})),
            ("GroupAdd", json!(["0"])),
            ("OomKillDisable", json!(true)),
            ("OomScoreAdj", json!(-1000)),
            ("Runtime", json!("runc")),
            ("Annotations", json!({"a": "b"})),
            ("MaskedPaths", json!(["/proc/kcore"])),
            ("ReadonlyPaths", json!(["/x"])),
            ("RestartPolicy", json!({"Name": "always"})),
            ("VolumeDriver", json!("x")),
            ("ContainerIDFile", json!("/etc/x")),
            ("LogConfig", json!({"Type": "syslog"})),
            ("LogConfig", json!({"Type": "none", "Config": {"a": "b"}})),
            (
                "BlkioWeightDevice",
                json!([{"Path": "/dev/sda", "Weight": 1}]),
            ),
            ("Isolation", json!("hyperv")),
            ("Tmpfs", json!({"/etc": ""})),
            ("PidsLimit", json!(-1)),
            ("MemorySwap", json!(-1)),
            ("Memory", json!(1.5)),
            ("Unheard", json!({"a": [1]})),
            ("privileged", json!(true)),
            ("PRIVILEGED", json!(true)),
            ("binds", json!(["/:/host"])),
        ] {
            refused(&Policy::default(), member, &value);
        }
    }

    #[test]
    fn what_runs_must_say_what_is_not_dockers_default() {
        for member in [
            "Memory",
            "PidsLimit",
            "NetworkMode",
            "IpcMode",
            "ReadonlyRootfs",
            "CapDrop",
            "SecurityOpt",
            "LogConfig",
        ] {
            let mut body = sandbox();
            body["HostConfig"].as_object_mut().unwrap().remove(member);
            assert!(check(&Policy::default(), &body).is_err(), "{member}");
            body["HostConfig"][member] = json!(null);
            assert!(check(&Policy::default(), &body).is_err(), "{member}");
        }
        let mut body = sandbox();
        body["HostConfig"]["ReadonlyRootfs"] = json!(false);
        assert!(check(&Policy::default(), &body).is_err());
    }

    #[test]
    fn security_options_only_take_rights_away() {
        for options in [
            json!(["seccomp=unconfined"]),
            json!(["no-new-privileges:true", "seccomp=unconfined"]),
            json!(["no-new-privileges:true", "seccomp:unconfined"]),
            json!(["no-new-privileges:true", "seccomp=builtin"]),
            json!(["no-new-privileges:true", "apparmor=unconfined"]),
            json!(["no-new-privileges:true", "systempaths=unconfined"]),
            json!(["no-new-privileges:true", "label=disable"]),
            json!(["no-new-privileges:false"]),
            json!(["no-new-privileges:true", "no-new-privileges:false"]),
            json!(["no-new-privileges:true", 1]),
        ] {
            refused(&Policy::default(), "SecurityOpt", &options);
        }
    }

    #[test]
    fn more_may_be_masked_and_not_less() {
        let with = |paths: &[&str]| {
            let mut body = sandbox();
            body["HostConfig"]["MaskedPaths"] = json!(paths);
            check(&Policy::default(), &body).is_ok()
        };
        let all = super::MASKED;
        assert!(with(&all));
        assert!(with(&[&all[..], &["/sys/devices/virtual/dmi"]].concat()));
        assert!(!with(&all[1..]));
        for bad in ["/workspace", "/proc/../etc", "proc/x", "/proc/\n", "/"] {
            assert!(!with(&[&all[..], &[bad]].concat()), "{bad}");
        }
    }

    #[test]
    fn what_an_operator_permits_is_permitted() {
        let mut policy = Policy::default()
            .with_network("bridge")
            .and_then(|policy| policy.with_runtime("runsc"))
            .unwrap();
        policy.allow_gpu = true;
        let mut body = sandbox();
        body["HostConfig"]["NetworkMode"] = json!("bridge");
        assert!(check(&policy, &body).is_err(), "without the runtime");
        body["HostConfig"]["Runtime"] = json!("runsc");
        body["HostConfig"]["DeviceRequests"] =
            json!([{"Driver": "nvidia", "Count": 1, "Capabilities": [["gpu", "compute"]]}]);
        assert!(check(&policy, &body).is_ok());
        for bad in [
            json!([{"Driver": "cdi", "DeviceIDs": ["vendor.com/x=y"], "Capabilities": [["gpu"]]}]),
            json!([{"Count": 1}]),
            json!([{"Capabilities": [["tpu"]]}]),
            json!([{"Capabilities": [["gpu"]], "Options": {"a": "b"}}]),
            json!([{"Capabilities": [["gpu"]], "DeviceIDs": ["/dev/sda"]}]),
        ] {
            body["HostConfig"]["DeviceRequests"] = bad.clone();
            assert!(check(&policy, &body).is_err(), "{bad}");
        }
        assert!(check(&policy, &helper()).is_ok());
    }
}
