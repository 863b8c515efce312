//! Amounts: of memory, processors, processes.

use serde_json::{Value, json};

use crate::{fields::Fields, json, refusal::Result};

/// What may be named in `Ulimits`.
const ULIMITS: [&str; 8] = [
    "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "stack",
];

/// Whether something runs that must be held.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    Limits,
    Nothing,
}

pub fn keep(fields: &mut Fields, needed: Needed) -> Result<()> {
    for (name, given) in amounts(fields)? {
        let must_be_given = ["Memory", "PidsLimit"].contains(&name);
        if needed == Needed::Limits && must_be_given && !given {
            return Err(fields.refuse(name, "must be given, and above 0"));
        }
    }
    let Some(limits) = fields.take_list("Ulimits")? else {
        return Ok(());
    };
    let mut kept = Vec::new();
    for limit in limits {
        let mut limit = Fields::open("HostConfig.Ulimits", limit)?;
        let rule = "is not one that may be set";
        let name = limit.text("Name", rule, |name| ULIMITS.contains(&name))?;
        let name = name.ok_or_else(|| limit.refuse("Name", "must be given"))?;
        let soft = limit.number("Soft", 0..=i64::MAX)?.unwrap_or(0);
        let hard = limit.number("Hard", 0..=i64::MAX)?.unwrap_or(0);
        limit.close()?;
        kept.push(json!({"Name": name, "Soft": soft, "Hard": hard}));
    }
    fields.keep("Ulimits", kept);
    Ok(())
}

/// Below zero Docker takes them as no limit, and so it does zero processes.
fn amounts(fields: &mut Fields) -> Result<[(&'static str, bool); 4]> {
    let mut amounts = ["Memory", "MemorySwap", "NanoCpus", "PidsLimit"].map(|name| (name, false));
    for (name, given) in &mut amounts {
        *given = fields.number(name, 1..=i64::MAX)?.is_some();
    }
    Ok(amounts)
}

/// `POST /containers/{id}/update`: amounts, and nothing else.
pub fn update(body: &[u8]) -> Result<Value> {
    let mut fields = Fields::open("", json::parse(body)?)?;
    // A limit of no processes means none to an update, where it is given.
    amounts(&mut fields)?;
    fields.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_changes_amounts_and_nothing_else() {
        let body = br#"{"Memory": 1000000, "MemorySwap": 1000000, "NanoCpus": 1, "PidsLimit": 9}"#;
        assert_eq!(
            update(body).unwrap(),
            json!({"Memory": 1_000_000, "MemorySwap": 1_000_000, "NanoCpus": 1, "PidsLimit": 9})
        );
        assert_eq!(
            update(br#"{"PidsLimit": 0, "CpuShares": 0}"#).unwrap(),
            json!({})
        );
        for bad in [
            r#"{"PidsLimit": -1}"#,
            r#"{"MemorySwap": -1}"#,
            r#"{"Memory": "1"}"#,
            r#"{"Memory": 1e30}"#,
            r#"{"CgroupParent": "/"}"#,
            r#"{"Devices": [{"PathOnHost": "/dev/sda"}]}"#,
            r#"{"DeviceCgroupRules": ["a *:* rwm"]}"#,
            r#"{"RestartPolicy": {"Name": "always"}}"#,
            r#"{"OomKillDisable": true}"#,
            r#"{"devices": [{"PathOnHost": "/dev/sda"}]}"#,
            r#"{"Memory": 1, "memory": 2}"#,
            "[]",
            "",
        ] {
            assert!(update(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
