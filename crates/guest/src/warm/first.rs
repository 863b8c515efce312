//! What code does first.

/// Modules of the standard library that set nothing which a package reads.
const HARMLESS: [&str; 32] = [
    "__future__",
    "abc",
    "asyncio",
    "base64",
    "collections",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "enum",
    "functools",
    "glob",
    "hashlib",
    "io",
    "itertools",
    "json",
    "logging",
    "math",
    "os",
    "pathlib",
    "random",
    "re",
    "statistics",
    "string",
    "sys",
    "tempfile",
    "textwrap",
    "time",
    "typing",
    "uuid",
    "warnings",
];

/// Whether code imports one of the packages before it does anything that an import could
/// see: sets a variable, installs another version, puts a hook in the way. It is read by
/// lines, and whatever is not as simple as that is something else.
pub(super) fn imports_first(code: &str, packages: &[String]) -> bool {
    let lines = code
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    // The first of a line that begins with blanks is below something else.
    let statements = lines.flat_map(|line| line.trim_end().split("; "));
    for statement in statements {
        if statement.is_empty() {
            continue;
        }
        let Some(modules) = imported(statement) else {
            return false;
        };
        if modules
            .iter()
            .any(|it| packages.iter().any(|package| package == it))
        {
            return true;
        }
        if statement.contains(['(', '\\']) || !modules.iter().all(|it| HARMLESS.contains(it)) {
            return false;
        }
    }
    false
}

/// The packages of a statement that imports, by the names that they have themselves.
fn imported(statement: &str) -> Option<Vec<&str>> {
    let named = match statement.strip_prefix("import ") {
        Some(modules) => modules,
        // What it takes of it is no module of another package.
        None => statement.strip_prefix("from ")?.split(" import ").next()?,
    };
    let modules = named.split(',').map(|module| {
        let name = module.trim_start().split(' ').next().unwrap_or_default();
        name.split('.').next().unwrap_or_default()
    });
    Some(modules.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_imported_before_anything_else_is_known() {
        let packages = ["numpy", "pandas", "matplotlib"].map(str::to_owned);
        for first in [
            "import numpy",
            "import numpy as np\nos.environ['A'] = '1'",
            "# plots\n\nimport os, sys\nfrom pathlib import Path\nimport matplotlib.pyplot as plt",
            "from __future__ import annotations\nfrom pandas import (\n    DataFrame,\n)",
            "import os; import json  # both\nimport pandas as pd",
            "import json, numpy.linalg",
        ] {
            assert!(imports_first(first, &packages), "{first}");
        }
        for other in [
            "",
            "import os",
            "x = 1\nimport numpy",
            "import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport numpy",
            "import os; os.environ['OMP_NUM_THREADS'] = '1'; import numpy",
            "import mine\nimport numpy",
            "import os, mine\nimport numpy",
            "'''\nimport numpy\n'''",
            "if x:\n import numpy",
            "  import numpy",
            "%pip install -U pandas\nimport pandas",
            "!pip install -U pandas\nimport pandas",
            "from os import (path,\nnumpy)\nimport numpy",
            "import os \\\n, mine\nimport numpy",
            "from . import numpy",
            "import numpyro",
            "from mine import numpy",
        ] {
            assert!(!imports_first(other, &packages), "{other}");
        }
    }
}
