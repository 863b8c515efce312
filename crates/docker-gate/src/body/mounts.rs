//! What is mounted in a container: volumes of ours and memory.

use serde_json::{Map, Value};

use super::{container::Role, host};
use crate::{
    call::FOLDERS,
    fields::Fields,
    names,
    refusal::{Refusal, Result, quoted},
};

/// Where a tmpfs may be.
const TMPFS: [&str; 5] = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock"];
/// Options of a tmpfs that have no value.
const FLAGS: [&str; 6] = ["rw", "ro", "nosuid", "nodev", "noexec", "exec"];
const MAX_MOUNTS: usize = 16;

/// Keeps the mounts; the volumes are what is mounted.
pub fn check(fields: &mut Fields, role: Role) -> Result<Vec<String>> {
    let mut volumes = Vec::new();
    if let Some(mounts) = fields.take_list("Mounts")? {
        if mounts.len() > MAX_MOUNTS {
            return Err(fields.refuse("Mounts", "are too many"));
        }
        let mut kept = Vec::new();
        for mount in mounts {
            kept.push(volume(mount, role, &mut volumes)?);
        }
        fields.keep("Mounts", kept);
    }
    if let Some(tmpfs) = fields.take_object("Tmpfs")? {
        check_tmpfs(&tmpfs)?;
        fields.keep("Tmpfs", tmpfs);
    }
    fields.number("ShmSize", 1..=i64::MAX)?;
    if let Some(options) = fields.take_object("StorageOpt")? {
        let options = host::size_option("HostConfig.StorageOpt", options)?;
        fields.keep("StorageOpt", options);
    }
    Ok(volumes)
}

fn volume(mount: Value, role: Role, volumes: &mut Vec<String>) -> Result<Value> {
    let mut fields = Fields::open("HostConfig.Mounts", mount)?;
    let kind = fields.text("Type", "must be `volume`", |kind| kind == "volume")?;
    if kind.is_none() {
        return Err(fields.refuse("Type", "must be `volume`"));
    }
    let source = fields.text(
        "Source",
        "must be a volume of the service's",
        names::is_ours,
    )?;
    let source = source
        // Without a name Docker makes a volume, which nobody would find again.
        .ok_or_else(|| fields.refuse("Source", "must be a volume of the service's"))?;
    let rule = "must be `/.sandbox` or `/workspace`";
    let target = fields
        .text("Target", rule, |target| FOLDERS.contains(&target))?
        .ok_or_else(|| fields.refuse("Target", rule))?;
    let read_only = fields.flag("ReadOnly")? == Some(true);
    // Sandboxes share the guest: none may write it.
    if role == Role::Sandbox && target == FOLDERS[0] && !read_only {
        return Err(fields.refuse("ReadOnly", "must be true for `/.sandbox`"));
    }
    if let Some(options) = fields.take("VolumeOptions") {
        let mut options = Fields::open(&fields.at("VolumeOptions"), options)?;
        options.flag("NoCopy")?;
        // Above all no DriverConfig: the options of a driver mount what they like.
        fields.keep("VolumeOptions", options.close()?);
    }
    volumes.push(source);
    fields.close()
}

fn check_tmpfs(tmpfs: &Map<String, Value>) -> Result<()> {
    for (target, options) in tmpfs {
        let refuse =
            |why: &str| Refusal::forbidden(format!("HostConfig.Tmpfs {}: {why}", quoted(target)));
        if !TMPFS.contains(&target.as_str()) {
            return Err(refuse("there is no tmpfs to be there"));
        }
        let options = options
            .as_str()
            .ok_or_else(|| refuse("has options that are no text"))?;
        let mut sized = false;
        for option in options.split(',') {
            let known = match option.split_once('=') {
                None => FLAGS.contains(&option),
                Some(("size", size)) => {
                    sized = true;
                    host::is_size(size)
                }
                Some(("mode", mode)) => {
                    (3..=4).contains(&mode.len())
                        && mode.bytes().all(|b| (b'0'..=b'7').contains(&b))
                }
                Some(("uid" | "gid" | "nr_inodes", number)) => {
                    (1..=9).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit())
                }
                Some(_) => false,
            };
            if !known {
                return Err(refuse(&format!(
                    "the option {} is not permitted",
                    quoted(option)
                )));
            }
        }
        if !sized {
            return Err(refuse("must have a size"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::container::tests::{check, helper, sandbox};
    use crate::policy::Policy;
    use serde_json::json;

    #[test]
    fn only_volumes_of_ours_are_mounted_and_only_where_they_belong() {
        let good = json!({"Type": "volume", "Source": "sandboxd-a", "Target": "/workspace"});
        for (member, value) in [
            ("Type", json!("bind")),
            ("Type", json!("tmpfs")),
            ("Type", json!("npipe")),
            ("Type", json!("image")),
            ("Type", json!("")),
            ("Source", json!("/")),
            ("Source", json!("/var/lib/docker/volumes/sandboxd-a")),
            ("Source", json!("postgres-data")),
            ("Source", json!("sandboxd-../x")),
            ("Source", json!("")),
            ("source", json!("/")),
            ("Target", json!("/")),
            ("Target", json!("/etc")),
            ("Target", json!("/workspace/../etc")),
            ("Target", json!("/workspace/x")),
            ("Target", json!("")),
            ("BindOptions", json!({"Propagation": "rshared"})),
            ("TmpfsOptions", json!({"SizeBytes": 1})),
            ("VolumeOptions", json!({"DriverConfig": {"Name": "local"}})),
            (
                "VolumeOptions",
                json!({"DriverConfig": {"Options": {"device": "/"}}}),
            ),
            (
                "VolumeOptions",
                json!({"driverconfig": {"Options": {"device": "/"}}}),
            ),
            ("VolumeOptions", json!({"Labels": {"a": "b"}})),
            ("VolumeOptions", json!({"Subpath": "../.."})),
            ("Consistency", json!("cached")),
        ] {
            for mut body in [sandbox(), helper()] {
                let mut mount = good.clone();
                mount[member] = value.clone();
                body["HostConfig"]["Mounts"] = json!([good, mount]);
                assert!(
                    check(&Policy::default(), &body).is_err(),
                    "{member} {value}"
                );
            }
        }
    }

    #[test]
    fn no_sandbox_writes_the_guest_that_all_share() {
        let mut body = sandbox();
        body["HostConfig"]["Mounts"][0]["ReadOnly"] = json!(false);
        assert!(check(&Policy::default(), &body).is_err());
        body["HostConfig"]["Mounts"][0]
            .as_object_mut()
            .unwrap()
            .remove("ReadOnly");
        assert!(check(&Policy::default(), &body).is_err());
    }

    #[test]
    fn memory_that_is_a_file_system_has_a_size() {
        let with = |target: &str, options: &str| {
            let mut body = sandbox();
            body["HostConfig"]["Tmpfs"] = json!({target: options});
            check(&Policy::default(), &body).is_ok()
        };
        assert!(with("/tmp", "rw,nosuid,nodev,size=64m,mode=1777"));
        assert!(with("/dev/shm", "size=65536"));
        for (target, options) in [
            ("/tmp", ""),
            ("/tmp", "rw"),
            ("/tmp", "size=0"),
            ("/tmp", "size=50%"),
            ("/tmp", "size=1,suid"),
            ("/tmp", "size=1,dev"),
            ("/tmp", "size=1,mode=x"),
            ("/tmp", "size=1,rshared"),
            ("/workspace", "size=1"),
            ("/etc", "size=1"),
            ("/tmp/../etc", "size=1"),
            ("/", "size=1"),
            ("/proc", "size=1"),
        ] {
            assert!(!with(target, options), "{target} {options}");
        }
    }

    #[test]
    fn storage_options_are_a_size() {
        let with = |value| {
            let mut body = sandbox();
            body["HostConfig"]["StorageOpt"] = value;
            check(&Policy::default(), &body).is_ok()
        };
        assert!(with(json!({"size": "10G"})));
        assert!(!with(json!({"size": "x"})));
        assert!(!with(json!({"size": "1", "device": "/"})));
        assert!(!with(json!({"Size": "1"})));
    }
}
