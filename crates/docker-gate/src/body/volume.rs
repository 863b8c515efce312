//! Volumes: made by `POST /volumes/create`, and looked at before they are mounted.

use serde_json::{Map, Value};

use super::host::size_option;
use crate::{
    fields::Fields,
    json, names,
    refusal::{Refusal, Result},
};

/// A volume's description as it is sent on.
///
/// The options `type`, `o` and `device` of the driver `local` mount any path of the
/// host: they are the same as a bind mount, and no word of ours.
pub fn volume(body: &[u8]) -> Result<Value> {
    let mut fields = Fields::open("", json::parse(body)?)?;
    let Some(Value::String(name)) = fields.take("Name") else {
        return Err(Refusal::forbidden("Name must be given"));
    };
    names::check("volume", &name)?;
    fields.keep("Name", name);
    let labels = fields.take_object("Labels")?.unwrap_or_default();
    names::check_labels(&labels)?;
    fields.keep("Labels", labels);
    fields.text("Driver", "must be `local`", |driver| driver == "local")?;
    if let Some(options) = fields.take_object("DriverOpts")? {
        fields.keep("DriverOpts", size_option("DriverOpts", options)?);
    }
    fields.close()
}

/// Whether a volume that exists is one that could have been made here.
pub fn is_plain_volume(volume: &Value) -> bool {
    let none = Map::new();
    let object = |name: &str| volume[name].as_object().unwrap_or(&none);
    volume["Name"].as_str().is_some_and(names::is_ours)
        && volume["Driver"] == "local"
        && names::has_own(object("Labels"))
        && object("Options").keys().all(|option| option == "size")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({"Name": "sandboxd-a", "Labels": {"dev.sandboxd.owner": "me"}})
    }

    #[test]
    fn a_volume_is_a_folder_of_dockers_and_no_path_of_the_host() {
        assert_eq!(volume(good().to_string().as_bytes()).unwrap(), good());
        let mut sized = good();
        sized["Driver"] = json!("local");
        sized["DriverOpts"] = json!({"size": "512m"});
        assert_eq!(volume(sized.to_string().as_bytes()).unwrap(), sized);
        for (member, value) in [
            ("Name", json!("other")),
            ("Name", json!("")),
            ("Name", json!("sandboxd-../x")),
            ("Labels", json!({})),
            ("Labels", json!({"a": "b"})),
            ("Driver", json!("nfs")),
            ("Driver", json!("LOCAL")),
            (
                "DriverOpts",
                json!({"type": "none", "o": "bind", "device": "/"}),
            ),
            ("DriverOpts", json!({"device": "/"})),
            ("DriverOpts", json!({"o": "size=1,bind"})),
            ("DriverOpts", json!({"size": "1", "o": "bind"})),
            ("DriverOpts", json!({"Size": "1"})),
            ("DriverOpts", json!({"size": 1})),
            ("driveropts", json!({"device": "/"})),
            ("DRIVEROPTS", json!({"device": "/"})),
            ("ClusterVolumeSpec", json!({"Group": "x"})),
        ] {
            let mut body = good();
            body[member] = value.clone();
            assert!(
                volume(body.to_string().as_bytes()).is_err(),
                "{member} {value}"
            );
        }
    }

    #[test]
    fn a_volume_that_somebody_else_made_is_not_plain() {
        let plain = json!({"Name": "sandboxd-a", "Driver": "local", "Options": null,
                           "Labels": {"dev.sandboxd.owner": "me"}});
        assert!(is_plain_volume(&plain));
        for (member, value) in [
            ("Name", json!("other")),
            ("Driver", json!("nfs")),
            ("Labels", json!(null)),
            ("Labels", json!({"a": "b"})),
            (
                "Options",
                json!({"type": "none", "o": "bind", "device": "/"}),
            ),
        ] {
            let mut volume = plain.clone();
            volume[member] = value.clone();
            assert!(!is_plain_volume(&volume), "{member} {value}");
        }
    }
}
