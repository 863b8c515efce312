//! What runs print, display and leave behind, in a sandbox with all its filters.

use std::time::Duration;

use sandbox_core::{ArtifactLimits, Program, RunOutcome, RunRequest, Script};

use crate::support::{Sandbox, Sandboxes};

async fn python(sandbox: &Sandbox, source: &'static str) -> RunOutcome {
    let request = RunRequest {
        program: Program {
            argv: vec!["python3".into(), "-u".into(), "{file}".into()],
            script: Some(Script {
                compile: Vec::new(),
                file_name: "main.py".into(),
                source: source.into(),
            }),
        },
        env: Default::default(),
        cwd: None,
        stdin: Default::default(),
        timeout: Duration::from_secs(60),
        output_limit: 1000,
        live: false,
        spill_limit: 1 << 20,
        artifacts: Some(ArtifactLimits {
            max_files: 10,
            max_file_bytes: 1 << 20,
            max_total_bytes: 1 << 22,
        }),
        python_display: true,
        context: None,
    };
    let run = sandbox.place.guest().run(request).await.unwrap();
    run.collect().await.unwrap()
}

#[tokio::test]
async fn figures_tables_files_and_long_output_are_kept_in_a_sandbox() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let outcome = python(
        &sandbox,
        "import matplotlib.pyplot as plt, pandas as pd, sys
plt.plot([1, 2, 3])
plt.savefig('saved.png')
plt.show()
display(pd.DataFrame({'a': [1, 2]}))
print('x' * 5000)",
    )
    .await;
    assert_eq!(
        (outcome.stderr.to_text().as_str(), outcome.exit_code),
        ("", 0)
    );
    let made: Vec<_> = outcome
        .artifacts
        .iter()
        .map(|artifact| (artifact.name.as_str(), artifact.kind.as_str()))
        .collect();
    assert_eq!(
        made,
        [
            ("figure-1.png", "plot"),
            ("table-1.csv", "table"),
            ("saved.png", "plot")
        ]
    );
    assert_eq!(outcome.artifacts_omitted, 0);
    // Where the service says that they are, and as it says.
    let spilled = outcome.stdout_file.unwrap();
    assert_eq!(spilled.size_bytes, 5001);
    for (path, hash) in outcome
        .artifacts
        .iter()
        .map(|artifact| (&artifact.stored_path, &artifact.sha256))
        .chain([(&spilled.path, &spilled.sha256)])
    {
        let sum = sandbox.run(&["sha256sum", path]).await;
        assert_eq!(sum.stdout.to_text().split(' ').next(), Some(hash.as_str()));
    }
    let again = python(&sandbox, "print(open('saved.png', 'rb').read(4))").await;
    assert_eq!((again.artifacts.len(), again.exit_code), (0, 0));
}
