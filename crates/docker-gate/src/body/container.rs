//! `POST /containers/create`.

use serde_json::Value;

use super::{environment, host};
use crate::{
    fields::Fields,
    image::ImageName,
    json, names,
    policy::Policy,
    refusal::{Refusal, Result},
};

/// The guest, init of each sandbox.
const GUEST: &str = "/.sandbox/guest";
/// Of containers that are never started.
const NONE: &str = "/none";
const USER: &str = "65532:65532";
/// Exactly the mount of the workspace: runc has followed others to descriptors of
/// the host (CVE-2024-21626).
const WORKING_DIR: &str = "/workspace";

/// What a container is for; its entrypoint says it, which cannot change later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It runs the guest.
    Sandbox,
    /// It is never started: archives reach a volume through it.
    Helper,
}

impl Role {
    pub fn of(entrypoint: &[String]) -> Option<Self> {
        match entrypoint {
            [program] if program == GUEST => Some(Self::Sandbox),
            [program] if program == NONE => Some(Self::Helper),
            _ => None,
        }
    }
}

/// A description that was checked.
#[derive(Debug)]
pub struct Container {
    pub role: Role,
    /// As it is sent on.
    pub body: Value,
    /// Volumes that it mounts; whose they are is yet to be seen.
    pub volumes: Vec<String>,
}

pub fn container(policy: &Policy, body: &[u8]) -> Result<Container> {
    let mut fields = Fields::open("", json::parse(body)?)?;
    let entrypoint = fields.take_texts("Entrypoint")?.unwrap_or_default();
    let role = Role::of(&entrypoint).ok_or_else(|| {
        let why = format!("must be `{GUEST}`, or `{NONE}` for what is never started");
        fields.refuse("Entrypoint", &why)
    })?;
    fields.keep("Entrypoint", entrypoint);

    let image = fields.take("Image").unwrap_or_default();
    let image = ImageName::parse(image.as_str().unwrap_or_default())?;
    policy.check_image(&image)?;
    fields.keep("Image", image.text());

    let user = fields.text("User", &format!("must be `{USER}`"), |user| user == USER)?;
    if role == Role::Sandbox && user.is_none() {
        return Err(fields.refuse("User", &format!("must be `{USER}`")));
    }
    fields.text("WorkingDir", &format!("must be `{WORKING_DIR}`"), |dir| {
        dir == WORKING_DIR
    })?;
    fields.text("Hostname", "is not a host's name", is_host_name)?;
    if let Some(command) = fields.take_texts("Cmd")? {
        fields.keep("Cmd", command);
    }
    if let Some(variables) = fields.take_texts("Env")? {
        environment::check(&variables, policy.allow_gpu)?;
        fields.keep("Env", variables);
    }
    let labels = fields.take_object("Labels")?.unwrap_or_default();
    names::check_labels(&labels)?;
    fields.keep("Labels", labels);
    for flag in [
        "AttachStderr",
        "AttachStdin",
        "AttachStdout",
        "NetworkDisabled",
        "OpenStdin",
        "StdinOnce",
    ] {
        fields.flag(flag)?;
    }

    // Longer would hold a daemon that is to end.
    fields.number("StopTimeout", 1..=10)?;
    health(&mut fields)?;
    let host = fields
        .take("HostConfig")
        .ok_or_else(|| Refusal::forbidden("HostConfig must be given"))?;
    let host = host::check(policy, role, host)?;
    fields.keep("HostConfig", host.body);
    Ok(Container {
        role,
        body: fields.close()?,
        volumes: host.volumes,
    })
}

/// That of the image may be switched off, and none switched on.
fn health(fields: &mut Fields) -> Result<()> {
    let Some(check) = fields.take("Healthcheck") else {
        return Ok(());
    };
    let mut check = Fields::open("Healthcheck", check)?;
    let test = check.take_texts("Test")?.unwrap_or_default();
    if test != ["NONE"] {
        return Err(check.refuse("Test", "must be [\"NONE\"]"));
    }
    check.keep("Test", test);
    let check = check.close()?;
    fields.keep("Healthcheck", check);
    Ok(())
}

fn is_host_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    text.len() <= 63 && !text.starts_with('-') && text.bytes().all(allowed)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// What the backend sends.
    pub fn sandbox() -> Value {
        json!({
            "Image": "worker",
            "Hostname": "sandbox",
            "User": "65532:65532",
            "WorkingDir": "/workspace",
            "Env": ["HOME=/workspace"],
            "Entrypoint": ["/.sandbox/guest"],
            "Cmd": ["serve", "--workspace", "/workspace"],
            "Labels": {"dev.sandboxd.owner": "me", "dev.sandboxd.kind": "sandbox"},
            "OpenStdin": true, "StdinOnce": true, "Tty": false,
            "AttachStdin": true, "AttachStdout": true, "AttachStderr": true,
            "NetworkDisabled": true,
            "Healthcheck": {"Test": ["NONE"]}, "StopTimeout": 1,
            "HostConfig": {
                "Mounts": [
                    {"Type": "volume", "Source": "sandboxd-guest-1", "Target": "/.sandbox",
                     "ReadOnly": true, "VolumeOptions": {"NoCopy": true}},
                    {"Type": "volume", "Source": "sandboxd-a", "Target": "/workspace",
                     "ReadOnly": false, "VolumeOptions": {"NoCopy": false}},
                ],
                "Memory": 536_870_912, "MemorySwap": 536_870_912, "NanoCpus": 1_000_000_000,
                "PidsLimit": 256,
                "Ulimits": [{"Name": "nofile", "Soft": 4096, "Hard": 4096},
                            {"Name": "core", "Soft": 0, "Hard": 0}],
                "NetworkMode": "none", "IpcMode": "private", "ShmSize": 67_108_864,
                "Tmpfs": {"/tmp": "rw,nosuid,nodev,size=65536,mode=1777"},
                "ReadonlyRootfs": true, "CapDrop": ["ALL"], "Privileged": false,
                "SecurityOpt": ["no-new-privileges:true"], "Init": false,
                "LogConfig": {"Type": "none"},
            },
        })
    }

    pub fn helper() -> Value {
        json!({
            "Image": "worker", "Entrypoint": ["/none"], "NetworkDisabled": true,
            "Labels": {"dev.sandboxd.kind": "helper"},
            "HostConfig": {
                "NetworkMode": "none",
                "Mounts": [{"Type": "volume", "Source": "sandboxd-a", "Target": "/.sandbox",
                            "VolumeOptions": {"NoCopy": true}}],
            },
        })
    }

    pub fn check(policy: &Policy, body: &Value) -> Result<Container> {
        container(policy, body.to_string().as_bytes())
    }

    #[test]
    fn what_the_backend_sends_passes_and_says_nothing_else() {
        let policy = Policy::default().with_image("worker:latest").unwrap();
        let checked = check(&policy, &sandbox()).unwrap();
        assert_eq!(checked.role, Role::Sandbox);
        assert_eq!(checked.volumes, ["sandboxd-guest-1", "sandboxd-a"]);
        let mut same = sandbox();
        same["Image"] = json!("worker:latest");
        same.as_object_mut().unwrap().remove("Tty");
        same["HostConfig"]
            .as_object_mut()
            .unwrap()
            .remove("Privileged");
        assert_eq!(checked.body, same);
        let checked = check(&policy, &helper()).unwrap();
        assert_eq!(checked.role, Role::Helper);
        assert_eq!(checked.volumes, ["sandboxd-a"]);
    }

    #[test]
    fn members_of_a_container_that_are_not_needed_are_refused() {
        for (member, value) in [
            ("Entrypoint", json!(["/bin/sh"])),
            ("Entrypoint", json!("/.sandbox/guest")),
            ("Entrypoint", json!(["/.sandbox/guest", "x"])),
            ("Entrypoint", json!([])),
            ("User", json!("0")),
            ("User", json!("65532")),
            ("User", json!("65532:0")),
            ("User", json!("")),
            ("WorkingDir", json!("/proc/self/fd/8")),
            ("WorkingDir", json!("/workspace/x")),
            ("Tty", json!(true)),
            ("Image", json!("../x")),
            ("Image", json!("")),
            ("Hostname", json!("a b")),
            ("Domainname", json!("x")),
            ("Labels", json!({})),
            (
                "Labels",
                json!({"dev.sandboxd.kind": "a", "traefik.enable": "true"}),
            ),
            ("Volumes", json!({"/x": {}})),
            ("Healthcheck", json!({"Test": ["CMD", "x"]})),
            ("Healthcheck", json!({"Test": ["NONE"], "Interval": 1})),
            ("Healthcheck", json!({"Interval": 1})),
            ("ExposedPorts", json!({"80/tcp": {}})),
            (
                "NetworkingConfig",
                json!({"EndpointsConfig": {"bridge": {"Links": ["a"]}}}),
            ),
            ("StopTimeout", json!(-1)),
            ("StopTimeout", json!(3600)),
            ("StopSignal", json!("KILL")),
            ("Shell", json!(["x"])),
            ("Unheard", json!("x")),
            ("HostConfig", json!(null)),
            ("HostConfig", json!([1])),
        ] {
            let mut body = sandbox();
            body[member] = value.clone();
            assert!(
                check(&Policy::default(), &body).is_err(),
                "{member} {value}"
            );
        }
    }

    #[test]
    fn a_member_in_other_case_is_refused_for_docker_takes_it_as_the_same() {
        for text in [
            r#"{"hostconfig": {"Privileged": true}}"#,
            r#"{"HOSTCONFIG": {"Binds": ["/:/x"]}}"#,
            // The long s and the Kelvin sign fold to s and k in Docker's decoder.
            r#"{"Ho\u017ftConfig": {"Binds": ["/:/x"]}}"#,
            r#"{"user": "0"}"#,
        ] {
            let mut body = sandbox();
            let more: Value = serde_json::from_str(text).unwrap();
            body.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            assert!(check(&Policy::default(), &body).is_err(), "{text}");
        }
    }

    #[test]
    fn what_says_nothing_may_be_there_and_is_not_sent_on() {
        let mut body = sandbox();
        let mut same = check(&Policy::default(), &body).unwrap().body;
        body["Volumes"] = json!({});
        body["MacAddress"] = json!("");
        // Docker would take an empty list here as: no path is masked.
        body["HostConfig"]["MaskedPaths"] = json!([]);
        body["HostConfig"]["ReadonlyPaths"] = json!([]);
        body["HostConfig"]["Binds"] = json!(null);
        body["HostConfig"]["RestartPolicy"] = json!({});
        body["HostConfig"]["CpuShares"] = json!(0);
        assert_eq!(check(&Policy::default(), &body).unwrap().body, same);
        // But false is not nothing where the daemon's own default may be true.
        body["HostConfig"].as_object_mut().unwrap().remove("Init");
        same["HostConfig"].as_object_mut().unwrap().remove("Init");
        assert_eq!(check(&Policy::default(), &body).unwrap().body, same);
    }
}
