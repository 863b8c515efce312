//! Environment of containers.

use crate::refusal::{Refusal, Result, quoted};

/// Read by the loader and the C library of whatever has them: hooks of runtimes
/// have run on the host, as root, with the container's environment (CVE-2025-23266).
const OF_THE_LOADER: [&str; 4] = ["LD_", "GCONV_", "GLIBC_", "MALLOC_"];
/// Some runtimes give devices and mounts to whoever sets these.
const OF_GPUS: &str = "NVIDIA_";
/// Of these, the ones that ask for nothing but GPUs.
const GPUS: [&str; 2] = ["NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"];
const GPU_VALUES: &[u8] = b",-";

pub fn check(variables: &[String], allow_gpu: bool) -> Result<()> {
    for variable in variables {
        let Some((name, value)) = variable.split_once('=') else {
            // The daemon would take its own for it.
            return Err(refuse(variable, "has no value"));
        };
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        if name.is_empty() || !name.bytes().all(allowed) {
            return Err(refuse(name, "is not the name of a variable"));
        }
        if OF_THE_LOADER.iter().any(|start| name.starts_with(start)) {
            return Err(refuse(
                name,
                "is not permitted: it is for the program loader",
            ));
        }
        if name.to_ascii_uppercase().starts_with(OF_GPUS) {
            let plain = |b: u8| b.is_ascii_alphanumeric() || GPU_VALUES.contains(&b);
            if !allow_gpu || !GPUS.contains(&name) || !value.bytes().all(plain) {
                return Err(refuse(name, "is not permitted: it is for --allow-gpu"));
            }
        }
    }
    Ok(())
}

fn refuse(name: &str, why: &str) -> Refusal {
    Refusal::forbidden(format!("Env: {} {why}", quoted(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_runtimes_get_no_library_to_load() {
        let is = |variable: &str, gpu| check(&[variable.to_owned()], gpu).is_ok();
        for good in ["HOME=/workspace", "A_B=", "TZ=a=b", "X=LD_PRELOAD=x"] {
            assert!(is(good, false), "{good}");
        }
        for bad in [
            "LD_PRELOAD=./poc.so",
            "LD_LIBRARY_PATH=.",
            "GLIBC_TUNABLES=x",
            "HOME",
            "=x",
            "A B=c",
            "NVIDIA_VISIBLE_DEVICES=all",
            "NVIDIA_REQUIRE_CUDA=x",
        ] {
            assert!(!is(bad, false), "{bad}");
        }
        assert!(is("NVIDIA_VISIBLE_DEVICES=all", true));
        assert!(!is("NVIDIA_VISIBLE_DEVICES=/var/run/x", true));
        assert!(!is("NVIDIA_MIG_CONFIG_DEVICES=all", true));
    }
}
