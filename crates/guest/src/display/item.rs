//! One thing that was displayed: as it is described, and as it is sent.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use sandbox_wire::sandbox::v1::{Artifact, Display};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::folder::Folder;
use crate::{
    artifacts::{About, Keeper},
    state::Guest,
};

/// Of one display's bundle, and of the description of one table.
const MAX_JSON_BYTES: usize = 1024 * 1024;
const MAX_NAME_BYTES: usize = 200;
const MAX_PREVIEW_ROWS: usize = 20;

/// As the interpreter describes it.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item {
    Plot {
        name: String,
        file: String,
    },
    Image {
        name: String,
        file: String,
    },
    File {
        name: String,
        file: String,
    },
    Table {
        name: String,
        csv: String,
        parquet: Option<String>,
        table: Table,
    },
    Display {
        bundle: BTreeMap<String, String>,
    },
    /// A figure was saved to a file.
    Saved {
        path: PathBuf,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Deserialize, Serialize, PartialEq)]
pub(super) struct Table {
    schema: Vec<Column>,
    columns_total: u64,
    rows_total: u64,
    preview: Vec<Map<String, Value>>,
}

#[derive(Debug, Deserialize, Serialize, PartialEq)]
struct Column {
    name: String,
    dtype: String,
}

/// As it is sent.
pub(super) enum Shown {
    Artifact(Artifact),
    Display(Display),
}

/// What is to be sent of an item, within what may be kept.
pub(super) fn show(
    item: &Item,
    guest: &Guest,
    folder: &Folder,
    keeper: &mut Keeper,
    go_on: &impl Fn() -> bool,
) -> Vec<Shown> {
    let mut keep = |name: &str, file: &str, is_plot| {
        let kept = match folder.open(file) {
            Ok(opened) => {
                let about = About {
                    name: plain(name),
                    path: None,
                    is_plot,
                };
                keeper.keep(&guest.workspace, &opened, about, go_on)
            }
            Err(_) => {
                keeper.omit(1);
                None
            }
        };
        folder.remove(file);
        kept
    };
    match item {
        Item::Plot { name, file } => one(keep(name, file, true)),
        Item::Image { name, file } | Item::File { name, file } => one(keep(name, file, false)),
        Item::Table {
            name,
            csv,
            parquet,
            table,
        } => {
            let mut formats: Vec<_> = keep(name, csv, false).into_iter().collect();
            if let Some(file) = parquet {
                let name = Path::new(name).with_extension("parquet");
                formats.extend(keep(&name.to_string_lossy(), file, false));
            }
            described(formats, table)
        }
        Item::Display { bundle } => match serde_json::to_string(bundle) {
            Ok(bundle_json) if bundle_json.len() <= MAX_JSON_BYTES => {
                vec![Shown::Display(Display {
                    bundle_json,
                    ..Default::default()
                })]
            }
            _ => Vec::new(),
        },
        Item::Saved { path } => {
            if let Ok(below) = path.strip_prefix(&guest.workspace) {
                keeper.note_plot(below);
            }
            Vec::new()
        }
        Item::Unknown => Vec::new(),
    }
}

fn one(kept: Option<Artifact>) -> Vec<Shown> {
    kept.map(Shown::Artifact).into_iter().collect()
}

/// The first of a table's formats tells what is in it, and of the others.
fn described(mut kept: Vec<Artifact>, table: &Table) -> Vec<Shown> {
    let formats: Vec<_> = kept
        .iter()
        .map(|artifact| {
            let format = artifact.name.rsplit('.').next();
            json!({
                "format": format,
                "id": artifact.id,
                "mime_type": artifact.mime_type,
                "size_bytes": artifact.size_bytes,
            })
        })
        .collect();
    if let Some(first) = kept.first_mut() {
        let described = json!({
            "schema": table.schema,
            "columns_total": table.columns_total,
            "rows_total": table.rows_total,
            "preview": &table.preview[..table.preview.len().min(MAX_PREVIEW_ROWS)],
            "formats": formats,
        })
        .to_string();
        if described.len() <= MAX_JSON_BYTES {
            first.table_json = described;
        }
    }
    kept.into_iter().map(Shown::Artifact).collect()
}

/// A name that is only a name.
fn plain(name: &str) -> String {
    let mut plain: String = name
        .chars()
        .map(|c| match c {
            '/' | '\\' => '_',
            c if c.is_control() => '_',
            c => c,
        })
        .collect();
    plain.truncate(plain.floor_char_boundary(MAX_NAME_BYTES));
    if plain.is_empty() || plain.starts_with('.') {
        plain.insert(0, '_');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_an_item_is_none() {
        let read = |text: &str| serde_json::from_str::<Item>(text).ok();
        assert_eq!(
            read(r#"{"type":"plot","name":"a.png","file":"f"}"#),
            Some(Item::Plot {
                name: "a.png".into(),
                file: "f".into()
            })
        );
        assert_eq!(read(r#"{"type":"new"}"#), Some(Item::Unknown));
        for text in [
            "",
            "null",
            "[]",
            r#"{"type":"plot","name":1,"file":"f"}"#,
            r#"{"type":"display","bundle":{"text/plain":1}}"#,
            r#"{"type":"table","name":"t","csv":"c","table":{"schema":[],"columns_total":0,"rows_total":-1,"preview":[]}}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_is_only_a_name() {
        for (given, made) in [
            ("a.png", "a.png"),
            ("../../a", "_.._.._a"),
            ("a\nb\0", "a_b_"),
            ("", "_"),
        ] {
            assert_eq!(plain(given), made, "{given:?}");
        }
        assert_eq!(plain(&"ä".repeat(300)).len(), 200);
    }
}
