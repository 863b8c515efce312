//! A context of a guest that runs as a plain process.

use std::{collections::BTreeMap, time::Duration};

use guest_client::{Collected, RunEvent, RunStream};
use sandbox_core::{
    Artifact, ArtifactLimits, ContextDriver, ContextEnd, ContextLimits, ContextLoss, ErrorCode,
    InContext, Program, RunOutcome, RunRequest, Script,
};
use serde_json::Value;

use crate::{
    FORKED,
    guest::{TestGuest, bash},
};

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    pub outcome: RunOutcome,
    /// Displays and the result, in their order.
    pub results: Vec<BTreeMap<String, String>>,
    pub main_result: Option<usize>,
}

impl Ran {
    pub fn stdout(&self) -> String {
        self.outcome.stdout.to_text()
    }

    pub fn stderr(&self) -> String {
        self.outcome.stderr.to_text()
    }

    /// The last expression's value as text.
    pub fn value(&self) -> Option<&str> {
        let result = &self.results[self.main_result?];
        result.get("text/plain").map(String::as_str)
    }

    pub fn error(&self) -> (&str, &str) {
        let raised = self.outcome.raised.as_ref().unwrap();
        (&raised.name, &raised.value)
    }

    pub fn context(&self) -> ContextEnd {
        self.outcome.context.unwrap()
    }

    pub fn loss(&self) -> Option<ContextLoss> {
        self.context().loss
    }

    pub fn artifacts(&self) -> &[Artifact] {
        &self.outcome.artifacts
    }
}

/// How code is run.
#[derive(Clone)]
pub struct Kind {
    pub language: &'static str,
    pub driver: ContextDriver,
    pub argv: Vec<String>,
    pub limits: ContextLimits,
}

pub fn kind(language: &'static str, driver: ContextDriver, argv: &[&str]) -> Kind {
    Kind {
        language,
        driver,
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        limits: ContextLimits::default(),
    }
}

pub fn python() -> Kind {
    let argv = ["/usr/bin/python3", "-u", "{file}"];
    kind("python", ContextDriver::Python, &argv)
}

/// Code for the context `name`.
pub fn wish(kind: &Kind, name: &str, code: &str) -> RunRequest {
    RunRequest {
        program: Program {
            argv: kind.argv.clone(),
            script: Some(Script {
                file_name: "main".into(),
                source: code.to_owned().into(),
                compile: Vec::new(),
            }),
        },
        context: Some(InContext {
            name: name.parse().unwrap(),
            language: kind.language.into(),
            driver: kind.driver,
            limits: kind.limits,
        }),
        artifacts: Some(ArtifactLimits {
            max_files: 50,
            max_file_bytes: 8 << 20,
            max_total_bytes: 32 << 20,
        }),
        ..bash("")
    }
}

pub async fn ended(mut run: RunStream) -> Ran {
    let mut collected = Collected::within(1 << 20);
    let (mut results, mut main_result) = (Vec::new(), None);
    let bundle = |text: &str| serde_json::from_str(text).unwrap();
    loop {
        match run.next().await.unwrap().unwrap() {
            RunEvent::Ended(end) => {
                return Ran {
                    outcome: collected.ended(end),
                    results,
                    main_result,
                };
            }
            RunEvent::Display(text) => results.push(bundle(&text)),
            RunEvent::Result(text) => {
                main_result = Some(results.len());
                results.push(bundle(&text));
            }
            event => collected.add(&event),
        }
    }
}

pub async fn run(guest: &TestGuest, request: RunRequest) -> Ran {
    let of_python = request.context.as_ref().unwrap().driver == ContextDriver::Python;
    let ran = ended(guest.client.run(request).await.unwrap()).await;
    assert_eq!(ran.outcome.warm, of_python && FORKED, "{ran:?}");
    ran
}

/// Runs Python in the context `main`.
pub async fn py(guest: &TestGuest, code: &str) -> Ran {
    run(guest, wish(&python(), "main", code)).await
}

/// Why a run is refused.
pub async fn refused(guest: &TestGuest, request: RunRequest) -> ErrorCode {
    guest.client.run(request).await.err().unwrap().code()
}

pub fn within(timeout_ms: u64, request: RunRequest) -> RunRequest {
    RunRequest {
        timeout: Duration::from_millis(timeout_ms),
        ..request
    }
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
