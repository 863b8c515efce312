//! Builds the guest, static, into a target directory of its own.
//!
//! Done here so that `cargo build` and `cargo install` need one step; a target
//! directory of its own keeps the two builds from waiting for each other's lock.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for input in [
        "core",
        "guest",
        "guest-parts",
        "wire",
        "../Cargo.toml",
        "../Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", crates.join(input).display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let target = env::var("TARGET").expect("cargo sets TARGET");
    // <target dir>/<profile>/build/<package>/out: shared by all profiles.
    let target_dir = out
        .ancestors()
        .find(|dir| dir.file_name().is_some_and(|name| name == "build"))
        .and_then(|dir| dir.parent()?.parent())
        .unwrap_or(&out)
        .join("guest");
    let mut build = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    build
        .args([
            "build",
            "--locked",
            "--profile",
            "guest",
            "--package",
            "sandbox-guest",
        ])
        .args(["--bin", "sandbox-guest", "--target", &target])
        .arg("--manifest-path")
        .arg(crates.join("guest/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    // Set for the outer build alone.
    for name in [
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
    ] {
        build.env_remove(name);
    }
    let status = build.status().expect("cargo runs");
    assert!(status.success(), "the guest could not be built");
    let built = target_dir.join(&target).join("guest/sandbox-guest");
    fs::copy(built, out.join("sandbox-guest")).expect("the guest was built");
}
