//! Which runs are forked, and from what.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{first::imports_first, zygote::Zygote};
use crate::run::{Extra, Start};

/// Variables that are read when an interpreter starts, or a library is loaded, by the
/// beginning of their names. A run that sets one of them otherwise is not forked.
const READ_AT_START: [&str; 12] = [
    "GLIBC_",
    "HOME",
    "LANG",
    "LC_",
    "LD_",
    "LOCPATH",
    "MALLOC_",
    "PATH",
    "PYTHON",
    "TZ",
    "VIRTUAL_ENV",
    "__PYVENV",
];
/// The same of libraries that may be preloaded.
const READ_BY_LIBRARIES: [&str; 25] = [
    "ACCELERATE_",
    "ARROW_",
    "BLIS_",
    "CUDA",
    "DISPLAY",
    "GOTO_",
    "HF_",
    "KMP_",
    "MKL_",
    "MPL",
    "NPY_",
    "NUMBA_",
    "NUMEXPR_",
    "NUMPY_",
    "NVIDIA_",
    "OMP_",
    "OPENBLAS_",
    "PANDAS_",
    "QT_",
    "TF_",
    "TORCH_",
    "TRANSFORMERS_",
    "WAYLAND_",
    "XDG_",
    "XLA_",
];
/// Every context imports it, where it is.
const OF_CONTEXTS: &str = "IPython";
/// Larger folders are not looked through for each run.
const MAX_NEIGHBOURS: usize = 2000;

/// How much a zygote has imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Imports {
    /// Modules of the standard library.
    Few,
    /// All that is to be preloaded.
    All,
}

impl Imports {
    pub fn and_fewer(&self) -> &'static [Self] {
        match self {
            Self::Few => &[Self::Few],
            Self::All => &[Self::All, Self::Few],
        }
    }
}

/// What zygotes import beside what all of them do (zygote.py).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preload {
    modules: Vec<String>,
    packages: Vec<String>,
}

/// A run that may be forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The interpreter and its options.
    pub command: Vec<String>,
    /// The script's path and its arguments.
    pub argv: Vec<String>,
    pub imports: Imports,
    /// The script keeps an interpreter alive, and looks for modules in the working
    /// directory.
    pub is_context: bool,
}

impl Preload {
    pub fn new(modules: impl IntoIterator<Item = String>) -> Self {
        let modules: Vec<String> = modules.into_iter().collect();
        let package = |module: &String| module.split('.').next().unwrap_or_default().to_owned();
        let packages: BTreeSet<String> = modules.iter().map(package).collect();
        Self {
            modules,
            packages: packages.into_iter().collect(),
        }
    }

    pub fn modules(&self, imports: Imports) -> &[String] {
        match imports {
            Imports::Few => &[],
            Imports::All => &self.modules,
        }
    }

    pub fn candidate(&self, argv: &[String], script: &str, source: &[u8]) -> Option<Candidate> {
        let (command, argv) = usual(argv, script)?;
        // Read as text by the one and as bytes by the other.
        if source.contains(&0) || declares_encoding(source) {
            return None;
        }
        Some(Candidate {
            command,
            argv,
            imports: match self
                .packages
                .iter()
                .any(|package| mentions(source, package))
            {
                true => Imports::All,
                false => Imports::Few,
            },
            is_context: false,
        })
    }

    /// The same of a context whose first code is `code`, with `env` set for it.
    pub fn context(
        &self,
        argv: &[String],
        script: &str,
        (code, env): (&str, &Env),
        extra: &Extra,
    ) -> Option<Candidate> {
        let (command, argv) = usual(argv, script)?;
        // What is imported ahead takes of the memory that code may have, and has read
        // variables that are set later.
        let has_room =
            extra.data_bytes.is_none() && !env.keys().any(|name| is_read(name, Imports::All));
        let imports = match self.packages.iter().any(|package| package == OF_CONTEXTS) {
            true => Imports::All,
            false if imports_first(code, &self.packages) => Imports::All,
            false => Imports::Few,
        };
        Some(Candidate {
            command,
            argv,
            imports: match has_room {
                true => imports,
                false => Imports::Few,
            },
            is_context: true,
        })
    }
}

/// The interpreter with its options, and the script with its arguments.
fn usual(argv: &[String], script: &str) -> Option<(Vec<String>, Vec<String>)> {
    let at = argv.iter().position(|word| word == script)?;
    let (command, argv) = argv.split_at(at);
    let [interpreter, options @ ..] = command else {
        return None;
    };
    let name = interpreter.rsplit('/').next().unwrap_or_default();
    // All else an option may change is decided when an interpreter starts.
    let is_usual = name.starts_with("python") && options.iter().all(|option| option == "-u");
    is_usual.then(|| (command.to_vec(), argv.to_vec()))
}

/// Whether `word` stands in the text as a name of its own.
fn mentions(text: &[u8], word: &str) -> bool {
    let word = word.as_bytes();
    let is_part =
        |byte: Option<&u8>| byte.is_some_and(|it| it.is_ascii_alphanumeric() || *it == b'_');
    (0..text.len().saturating_sub(word.len() - 1)).any(|at| {
        text[at..].starts_with(word)
            && !is_part(text.get(at + word.len()))
            && !(at > 0 && is_part(text.get(at - 1)))
    })
}

/// PEP 263; a declaration of what it is anyhow is one too.
fn declares_encoding(source: &[u8]) -> bool {
    source
        .split(|byte| *byte == b'\n')
        .take(2)
        .any(|line| line.trim_ascii_start().starts_with(b"#") && mentions(line, "coding"))
}

/// Whether a fork of the zygote is what a start of an interpreter would be.
pub(super) fn suits(zygote: &Zygote, candidate: &Candidate, program: &Start) -> bool {
    let Some(script) = candidate.argv.first() else {
        return false;
    };
    let folder = match candidate.is_context {
        true => &program.cwd,
        false => Path::new(script).parent().unwrap_or(Path::new("/")),
    };
    env_suits(zygote.env(), &program.env, zygote.imports())
        && !shadows(folder, |name| zygote.has(name))
        // matplotlib reads it where it is imported.
        && !(zygote.imports() == Imports::All && program.cwd.join("matplotlibrc").exists())
}

type Env = BTreeMap<String, String>;

fn env_suits(zygote: &Env, run: &Env, imports: Imports) -> bool {
    let added = run
        .iter()
        .filter(|(name, value)| zygote.get(*name) != Some(value));
    let gone = zygote.iter().filter(|(name, _)| !run.contains_key(*name));
    !added.chain(gone).any(|(name, _)| is_read(name, imports))
}

/// Whether an interpreter has read this variable when it has these imports.
fn is_read(name: &str, imports: Imports) -> bool {
    let libraries = match imports {
        Imports::Few => &[][..],
        Imports::All => &READ_BY_LIBRARIES[..],
    };
    let mut names = READ_AT_START.iter().chain(libraries);
    names.any(|start| name.starts_with(start))
}

/// Whether something beside the script stands before what was imported already.
fn shadows(folder: &Path, imported: impl Fn(&str) -> bool) -> bool {
    let Ok(entries) = fs::read_dir(folder) else {
        return true;
    };
    for (seen, entry) in entries.enumerate() {
        let Ok(entry) = entry else { return true };
        if seen == MAX_NEIGHBOURS {
            return true;
        }
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let (module, rest) = name.split_once('.').unwrap_or((name, ""));
        if !imported(module) {
            continue;
        }
        let is_module = match rest {
            // A package, unless it is a folder of something else.
            "" => entry.path().join("__init__.py").exists(),
            rest => ["py", "pyc", "so"].iter().any(|end| rest.ends_with(end)),
        };
        if is_module {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn preload() -> Preload {
        Preload::new(words("numpy matplotlib.pyplot"))
    }

    fn imports(source: &str) -> Option<Imports> {
        let argv = words("python3 -u /w/main.py a");
        let candidate = preload().candidate(&argv, "/w/main.py", source.as_bytes());
        candidate.map(|it| it.imports)
    }

    #[test]
    fn what_is_imported_is_seen_in_the_text() {
        for (source, expected) in [
            ("print(42)", Imports::Few),
            ("import json", Imports::Few),
            ("import numpy", Imports::All),
            ("from matplotlib import pyplot", Imports::All),
            ("import numpyish, my_numpy, numpy2", Imports::Few),
            ("", Imports::Few),
        ] {
            assert_eq!(imports(source), Some(expected), "{source}");
        }
    }

    #[test]
    fn what_cannot_be_forked_is_no_candidate() {
        assert_eq!(imports("a\0b"), None);
        assert_eq!(
            imports("#!/usr/bin/python\n# -*- coding: latin-1 -*-"),
            None
        );
        for argv in [
            "python3 -O /w/main.py",
            "ruby /w/main.py",
            "/w/main.py",
            "python3 -c x",
        ] {
            let candidate = preload().candidate(&words(argv), "/w/main.py", b"");
            assert_eq!(candidate, None, "{argv}");
        }
        let argv = words("/usr/bin/python3.11 /w/main.py a b");
        let candidate = preload().candidate(&argv, "/w/main.py", b"").unwrap();
        assert_eq!(candidate.command, words("/usr/bin/python3.11"));
        assert_eq!(candidate.argv, words("/w/main.py a b"));
    }

    #[test]
    fn a_context_has_the_imports_of_its_first_code_if_they_are_in_nobodys_way() {
        let argv = words("python3 -u /p/context.py");
        let of = |preload: &Preload, code: &str, env: &str, data_bytes: Option<u64>| {
            let env = env.split_terminator(' ').map(|it| (it.into(), "1".into()));
            let extra = Extra {
                data_bytes,
                ..Extra::default()
            };
            let first = (code, &env.collect());
            let candidate = preload.context(&argv, "/p/context.py", first, &extra);
            candidate.map(|it| (it.imports, it.is_context))
        };
        for (code, env, data_bytes, expected) in [
            ("import numpy", "", None, Imports::All),
            ("import numpy", "API_KEY", None, Imports::All),
            ("a\0b = 'numpy'", "", None, Imports::Few),
            ("x = 1", "", None, Imports::Few),
            ("", "", None, Imports::Few),
            ("import numpy", "OMP_NUM_THREADS", None, Imports::Few),
            ("import numpy", "", Some(1 << 28), Imports::Few),
        ] {
            let found = of(&preload(), code, env, data_bytes);
            assert_eq!(found, Some((expected, true)), "{code} {env}");
        }
        let ipython = Preload::new(words("numpy IPython.core.interactiveshell"));
        let found = of(&ipython, "x = 1", "", None);
        assert_eq!(found, Some((Imports::All, true)));
        let other = words("python3 -O /p/context.py");
        let first = ("", &Env::new());
        let found = preload().context(&other, "/p/context.py", first, &Extra::default());
        assert_eq!(found, None);
    }

    #[test]
    fn variables_that_are_read_at_the_start_are_not_changed_later() {
        let env = |pairs: &[(&str, &str)]| -> Env {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).into(), (*value).into()));
            pairs.collect()
        };
        let zygote = env(&[("HOME", "/h"), ("A", "1")]);
        for (run, few, all) in [
            (env(&[("HOME", "/h"), ("A", "1")]), true, true),
            (
                env(&[("HOME", "/h"), ("A", "2"), ("API_KEY", "x")]),
                true,
                true,
            ),
            (env(&[("HOME", "/h")]), true, true),
            (env(&[("A", "1")]), false, false),
            (
                env(&[("HOME", "/h"), ("PYTHONHASHSEED", "1")]),
                false,
                false,
            ),
            (
                env(&[("HOME", "/h"), ("OMP_NUM_THREADS", "1")]),
                true,
                false,
            ),
        ] {
            assert_eq!(env_suits(&zygote, &run, Imports::Few), few, "{run:?}");
            assert_eq!(env_suits(&zygote, &run, Imports::All), all, "{run:?}");
        }
    }

    #[test]
    fn a_module_beside_the_script_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let shadowed = || shadows(dir.path(), |name| name == "json" || name == "csv");
        fs::write(dir.path().join("data.json"), "").unwrap();
        fs::write(dir.path().join("json.txt"), "").unwrap();
        fs::create_dir(dir.path().join("csv")).unwrap();
        assert!(!shadowed());
        fs::write(dir.path().join("csv/__init__.py"), "").unwrap();
        assert!(shadowed());
        fs::remove_file(dir.path().join("csv/__init__.py")).unwrap();
        fs::write(dir.path().join("json.cpython-311-x86_64-linux-gnu.so"), "").unwrap();
        assert!(shadowed());
    }
}
