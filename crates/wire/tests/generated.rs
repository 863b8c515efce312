//! The code in `src/generated` is what the .proto files say.
//!
//! `WIRE_REGENERATE=1 cargo test -p sandbox-wire` writes it anew.

use std::{collections::BTreeMap, fs, path::Path};

use prost::Message as _;

const FILES: [&str; 8] = [
    "process.proto",
    "filesystem.proto",
    "sandbox/v1/error.proto",
    "sandbox/v1/code.proto",
    "sandbox/v1/context.proto",
    "sandbox/v1/life.proto",
    "sandbox/v1/search.proto",
    "sandbox/v1/workspace.proto",
];

fn generate(out: &Path) {
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let descriptors = protox::Compiler::new([&protos])
        .expect("proto folder")
        .include_source_info(true)
        .include_imports(true)
        .open_files(FILES)
        .expect("the .proto files are valid")
        .file_descriptor_set();
    let set = out.join("descriptors.bin");
    fs::write(&set, descriptors.encode_to_vec()).expect("write descriptors");
    connectrpc_build::Config::new()
        .files(&FILES)
        .descriptor_set(&set)
        .out_dir(out)
        .include_file("mod.rs")
        .emit_rerun_directives(false)
        .compile()
        .expect("code is generated");
    fs::remove_file(set).expect("remove descriptors");
}

fn tree(dir: &Path) -> BTreeMap<String, String> {
    fs::read_dir(dir)
        .expect("folder of generated code")
        .map(|entry| entry.expect("entry"))
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).expect("generated file");
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .collect()
}

#[test]
fn generated_code_matches_the_proto_files() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    if std::env::var_os("WIRE_REGENERATE").is_some() {
        let _ = fs::remove_dir_all(&kept);
        fs::create_dir_all(&kept).expect("make folder");
        generate(&kept);
    }
    let fresh = tempfile::tempdir().expect("temporary folder");
    generate(fresh.path());
    let (kept, fresh) = (tree(&kept), tree(fresh.path()));
    assert_eq!(
        kept.keys().collect::<Vec<_>>(),
        fresh.keys().collect::<Vec<_>>()
    );
    for (name, text) in fresh {
        assert!(
            kept[&name] == text,
            "{name} differs: run WIRE_REGENERATE=1 cargo test -p sandbox-wire"
        );
    }
}
