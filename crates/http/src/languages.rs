//! The table of languages: data, so that adding one needs no Rust.

use std::collections::BTreeMap;

use sandbox_core::{Error, ErrorCode, Program, Result, Script};
use serde::Deserialize;

const BUILT_IN: &str = include_str!("../../../config/languages.toml");
const FILE: &str = "{file}";

/// A table that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
pub enum LanguageError {
    #[error("the table of languages is not valid TOML")]
    Toml(#[from] toml::de::Error),
    #[error("language `{name}`: {problem}")]
    Entry { name: String, problem: String },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    aliases: Vec<String>,
    file: String,
    command: Vec<String>,
}

/// How the code of one language is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Language {
    name: String,
    file: String,
    command: Vec<String>,
}

impl Language {
    /// The name in the table, whichever alias it was found by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interpreter.
    pub fn program(&self) -> &str {
        &self.command[0]
    }

    /// The program that runs `code` with `args`.
    pub fn run(&self, code: String, args: Vec<String>) -> Program {
        let mut argv = self.command.clone();
        argv.extend(args);
        Program {
            argv,
            script: Some(Script {
                file_name: self.file.clone(),
                source: code.into(),
            }),
        }
    }
}

/// Every language that /execute takes, by name and alias.
#[derive(Clone, Debug)]
pub struct LanguageTable {
    entries: BTreeMap<String, Entry>,
    by_name: BTreeMap<String, Language>,
}

impl LanguageTable {
    /// The table that the service comes with.
    pub fn built_in() -> Result<Self, LanguageError> {
        Self::new(toml::from_str(BUILT_IN)?)
    }

    /// This table with the entries of an operator's file, which win.
    pub fn extended_by(&self, text: &str) -> Result<Self, LanguageError> {
        let mut entries = self.entries.clone();
        entries.extend(toml::from_str::<BTreeMap<String, Entry>>(text)?);
        Self::new(entries)
    }

    fn new(entries: BTreeMap<String, Entry>) -> Result<Self, LanguageError> {
        let mut by_name = BTreeMap::new();
        for (name, entry) in &entries {
            let bad = |problem: String| LanguageError::Entry {
                name: name.clone(),
                problem,
            };
            check(entry).map_err(bad)?;
            let language = Language {
                name: name.clone(),
                file: entry.file.clone(),
                command: entry.command.clone(),
            };
            for known_as in entry.aliases.iter().chain([name]) {
                if known_as.is_empty() || *known_as != known_as.to_lowercase() {
                    return Err(bad(format!("`{known_as}` is not a name in lower case")));
                }
                if by_name.insert(known_as.clone(), language.clone()).is_some() {
                    return Err(bad(format!("`{known_as}` is in the table twice")));
                }
            }
        }
        Ok(Self { entries, by_name })
    }

    /// The language that has this name or alias; case does not matter.
    pub fn get(&self, name: &str) -> Result<&Language> {
        self.by_name.get(&name.to_lowercase()).ok_or_else(|| {
            let known: Vec<&str> = self.names().collect();
            // Cut, for it comes from the request.
            let name: String = name.chars().take(64).collect();
            Error::new(
                ErrorCode::UnknownLanguage,
                format!(
                    "language `{name}` is not known; known are {}",
                    known.join(", ")
                ),
            )
        })
    }

    /// The names, without aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// The shell of POST /bash.
    pub fn shell(&self) -> &str {
        self.by_name.get("bash").map_or("bash", Language::program)
    }
}

fn check(entry: &Entry) -> Result<(), String> {
    let Some(program) = entry.command.first() else {
        return Err("`command` is empty".into());
    };
    if program.is_empty() || program == FILE {
        return Err("`command` does not start with a program".into());
    }
    if !entry.command.iter().any(|word| word == FILE) {
        return Err(format!("`command` has no word `{FILE}`"));
    }
    if entry.file.is_empty() || entry.file.starts_with('.') || entry.file.contains(['/', '\0']) {
        return Err(format!("`file` is not a file name: `{}`", entry.file));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> LanguageTable {
        LanguageTable::built_in().unwrap()
    }

    #[test]
    fn aliases_and_case_lead_to_the_same_language() {
        let table = table();
        let python = table.get("python").unwrap();
        for name in ["py", "python3", "Python", "PY"] {
            assert_eq!(table.get(name).unwrap(), python, "{name}");
        }
        let program = python.run("print(1)".into(), vec!["a b".into()]);
        assert_eq!(program.argv, ["python3", "-u", "{file}", "a b"]);
        assert_eq!(program.script.unwrap().file_name, "main.py");
    }

    #[test]
    fn an_unknown_language_is_refused_with_those_that_are_known() {
        let error = table().get("cobol").unwrap_err();
        assert_eq!(error.code(), ErrorCode::UnknownLanguage);
        assert_eq!(
            error.detail(),
            "language `cobol` is not known; known are \
             bash, javascript, perl, php, python, r, ruby, sh"
        );
    }

    #[test]
    fn an_operators_file_adds_and_replaces() {
        let table = table()
            .extended_by(
                "[lua]\nfile = 'main.lua'\ncommand = ['lua', '{file}']\n\
                 [bash]\nfile = 'main.sh'\ncommand = ['/opt/bash', '{file}']",
            )
            .unwrap();
        assert_eq!(table.get("lua").unwrap().program(), "lua");
        assert_eq!(table.shell(), "/opt/bash");
        assert!(table.get("python").is_ok());
    }

    #[test]
    fn a_table_that_cannot_work_is_refused_with_the_entrys_name() {
        for bad in [
            "[x]\nfile = 'a'\ncommand = []",
            "[x]\nfile = 'a'\ncommand = ['x']",
            "[x]\nfile = 'a'\ncommand = ['{file}']",
            "[x]\nfile = 'a'\ncommand = ['x', '-f={file}']",
            "[x]\nfile = '../a'\ncommand = ['x', '{file}']",
            "[X]\nfile = 'a'\ncommand = ['x', '{file}']",
            "[x]\naliases = ['python']\nfile = 'a'\ncommand = ['x', '{file}']",
        ] {
            let error = table().extended_by(bad).unwrap_err();
            assert!(
                matches!(error, LanguageError::Entry { .. }),
                "{bad}: {error}"
            );
        }
        let unknown = "[x]\nfile = 'a'\ncommand = ['x', '{file}']\nimage = 'y'";
        assert!(matches!(
            table().extended_by(unknown).unwrap_err(),
            LanguageError::Toml(_)
        ));
    }
}
