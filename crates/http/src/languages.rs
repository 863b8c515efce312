//! The table of languages: data, so that adding one needs no Rust.

use std::collections::BTreeMap;

use sandbox_core::{ContextDriver, Error, ErrorCode, Program, Result, Script};
use serde::Deserialize;

const BUILT_IN: &str = include_str!("../../../config/languages.toml");
const FILE: &str = "{file}";
const OUT: &str = "{out}";

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
    #[serde(default)]
    compile: Vec<String>,
    command: Vec<String>,
    runtime: Option<String>,
    version: Option<Vec<String>>,
    install: Option<String>,
    context: Option<String>,
}

/// How the code of one language is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Language {
    name: String,
    aliases: Vec<String>,
    file: String,
    compile: Vec<String>,
    command: Vec<String>,
    runtime: Option<String>,
    version: Vec<String>,
    install: Option<String>,
    context: Option<ContextDriver>,
}

impl Language {
    fn new(name: &str, entry: &Entry) -> Self {
        let mut language = Self {
            name: name.to_owned(),
            aliases: entry.aliases.clone(),
            file: entry.file.clone(),
            compile: entry.compile.clone(),
            command: entry.command.clone(),
            runtime: entry.runtime.clone(),
            version: Vec::new(),
            install: entry.install.clone(),
            context: entry.context.as_deref().and_then(ContextDriver::from_name),
        };
        language.version = match &entry.version {
            Some(version) => version.clone(),
            None => vec![language.starts_with().to_owned(), "--version".to_owned()],
        };
        language
    }

    /// The name in the table, whichever alias it was found by.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn aliases(&self) -> &[String] {
        &self.aliases
    }

    /// What the code's file is called, but for a part that is each run's own.
    pub fn file_name(&self) -> &str {
        &self.file
    }

    /// Whether a compiler runs first.
    pub fn is_compiled(&self) -> bool {
        !self.compile.is_empty()
    }

    /// The interpreter or compiler, for people.
    pub fn program(&self) -> &str {
        self.runtime.as_deref().unwrap_or(self.starts_with())
    }

    fn starts_with(&self) -> &str {
        let words = if self.is_compiled() {
            &self.compile
        } else {
            &self.command
        };
        words.first().map_or("", String::as_str)
    }

    /// Prints the version; fails where the language does not work.
    pub fn version(&self) -> &[String] {
        &self.version
    }

    /// What keeps an interpreter of it alive; none where it has no contexts.
    pub fn context(&self) -> Option<ContextDriver> {
        self.context
    }

    /// How to get it.
    pub fn install(&self) -> Option<&str> {
        self.install.as_deref()
    }

    /// What a client is told where the sandbox lacks it.
    pub fn missing(&self) -> String {
        let mut detail = format!(
            "language `{}` needs `{}`, which is not installed in the sandbox",
            self.name,
            self.program()
        );
        if let Some(install) = &self.install {
            detail.push_str("; it comes with ");
            detail.push_str(install);
        }
        detail
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
                compile: self.compile.clone(),
            }),
        }
    }
}

/// Every language that /execute takes, by name and alias.
#[derive(Clone, Debug)]
pub struct LanguageTable {
    entries: BTreeMap<String, Entry>,
    by_name: BTreeMap<String, Language>,
    /// Of the table, whether or not it is taken.
    shell: String,
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

    /// Only these languages of the table, by name or alias; none named is all.
    pub fn restricted_to(&self, allowed: &[String]) -> Result<Self, LanguageError> {
        if allowed.is_empty() {
            return Ok(self.clone());
        }
        let mut entries = BTreeMap::new();
        for name in allowed {
            let language = self.get(name).map_err(|_| LanguageError::Entry {
                name: name.clone(),
                problem: "it is allowed, and not in the table".into(),
            })?;
            if let Some((name, entry)) = self.entries.get_key_value(language.name()) {
                entries.insert(name.clone(), entry.clone());
            }
        }
        Ok(Self {
            shell: self.shell.clone(),
            ..Self::new(entries)?
        })
    }

    fn new(entries: BTreeMap<String, Entry>) -> Result<Self, LanguageError> {
        let mut by_name = BTreeMap::new();
        for (name, entry) in &entries {
            let bad = |problem: String| LanguageError::Entry {
                name: name.clone(),
                problem,
            };
            check(entry).map_err(bad)?;
            let language = Language::new(name, entry);
            for known_as in entry.aliases.iter().chain([name]) {
                if known_as.is_empty() || *known_as != known_as.to_lowercase() {
                    return Err(bad(format!("`{known_as}` is not a name in lower case")));
                }
                if by_name.insert(known_as.clone(), language.clone()).is_some() {
                    return Err(bad(format!("`{known_as}` is in the table twice")));
                }
            }
        }
        let shell = by_name
            .get("bash")
            .map_or("bash", Language::starts_with)
            .to_owned();
        Ok(Self {
            entries,
            by_name,
            shell,
        })
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
                    "language `{name}` is not known here; known are {}",
                    known.join(", ")
                ),
            )
        })
    }

    /// The names, without aliases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Every language once, by name.
    pub fn all(&self) -> impl Iterator<Item = &Language> {
        self.entries
            .keys()
            .filter_map(|name| self.by_name.get(name))
    }

    /// The shell of POST /bash.
    pub fn shell(&self) -> &str {
        &self.shell
    }
}

fn check(entry: &Entry) -> Result<(), String> {
    let steps = [&entry.compile, &entry.command];
    let Some(program) = entry.command.first() else {
        return Err("`command` is empty".into());
    };
    let has = |words: &[String], word: &str| words.iter().any(|found| found == word);
    if program.is_empty() || program == FILE || (program == OUT && entry.compile.is_empty()) {
        return Err("`command` does not start with a program".into());
    }
    if let Some(program) = entry.compile.first()
        && (program.is_empty() || program.starts_with('{'))
    {
        return Err("`compile` does not start with a program".into());
    }
    if !steps.iter().any(|words| has(words, FILE)) {
        return Err(format!("no word of `command` or `compile` is `{FILE}`"));
    }
    if has(&entry.command, OUT) != has(&entry.compile, OUT) {
        return Err(format!(
            "the word `{OUT}` is in one of `command` and `compile` and not in the other"
        ));
    }
    if let Some(context) = &entry.context {
        let known = ContextDriver::ALL.map(ContextDriver::as_str);
        if !known.contains(&context.as_str()) {
            return Err(format!("`context` is none of {}", known.join(", ")));
        }
        if !entry.compile.is_empty() {
            return Err("a language that is compiled has no contexts".into());
        }
    }
    if entry.version.as_ref().is_some_and(Vec::is_empty) {
        return Err("`version` is empty".into());
    }
    // A NUL would fail each run rather than the start.
    let words = steps.into_iter().chain(&entry.version).flatten();
    if words.clone().any(|word| word.contains('\0')) {
        return Err("a word has a NUL in it".into());
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
            "language `cobol` is not known here; known are bash, c, cpp, go, java, \
             javascript, perl, php, python, r, ruby, rust, sh, typescript"
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
    fn a_compiled_language_has_two_steps_and_only_the_second_gets_arguments() {
        let table = table();
        let c = table.get("c").unwrap();
        assert_eq!((c.program(), c.is_compiled()), ("gcc", true));
        let program = c.run("int main(){}".into(), vec!["a".into()]);
        assert_eq!(program.argv, ["{out}", "a"]);
        let compile = program.script.unwrap().compile;
        assert_eq!(compile[0], "gcc");
        assert!(compile.contains(&"{file}".to_owned()) && !compile.contains(&"a".to_owned()));
    }

    #[test]
    fn what_is_missing_is_named_with_where_it_comes_from() {
        let table = table();
        assert_eq!(
            table.get("go").unwrap().missing(),
            "language `go` needs `go`, which is not installed in the sandbox; \
             it comes with Debian package golang-go"
        );
    }

    #[test]
    fn a_table_can_be_restricted_and_keeps_its_shell() {
        let allowed = ["py".to_owned(), "c++".to_owned()];
        let table = table().restricted_to(&allowed).unwrap();
        assert_eq!(table.names().collect::<Vec<_>>(), ["cpp", "python"]);
        assert_eq!(table.shell(), "bash");
        let error = table.get("bash").unwrap_err();
        assert_eq!(error.code(), ErrorCode::UnknownLanguage);
        assert!(error.detail().ends_with("known are cpp, python"));
        assert!(table.get("python3").is_ok());
        assert!(table.restricted_to(&["cobol".to_owned()]).is_err());
        assert_eq!(table.restricted_to(&[]).unwrap().names().count(), 2);
    }

    #[test]
    fn a_table_that_cannot_work_is_refused_with_the_entrys_name() {
        for bad in [
            "[x]\nfile = 'a'\ncommand = []",
            "[x]\nfile = 'a'\ncommand = ['x']",
            "[x]\nfile = 'a'\ncommand = ['{file}']",
            "[x]\nfile = 'a'\ncommand = ['x', '-f={file}']",
            "[x]\nfile = 'a'\ncommand = ['{out}', '{file}']",
            "[x]\nfile = 'a'\ncommand = ['x', '{file}', '{out}']",
            "[x]\nfile = 'a'\ncompile = ['cc', '{file}', '{out}']\ncommand = ['x']",
            "[x]\nfile = 'a'\ncompile = ['{out}', '{file}']\ncommand = ['{out}']",
            "[x]\nfile = 'a'\ncommand = ['x', '{file}', \"\\u0000\"]",
            "[x]\nfile = 'a'\ncommand = ['x', '{file}']\nversion = []",
            "[x]\nfile = '../a'\ncommand = ['x', '{file}']",
            "[X]\nfile = 'a'\ncommand = ['x', '{file}']",
            "[x]\nfile = 'a'\ncommand = ['x', '{file}']\ncontext = 'perl'",
            "[x]\nfile = 'a'\ncompile = ['cc', '{file}', '{out}']\ncommand = ['{out}']\ncontext = 'r'",
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
