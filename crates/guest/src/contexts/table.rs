//! The contexts of the sandbox, by name.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;

use super::{
    interpreter::{Maker, Spec},
    life::{Context, Taken, Work},
    run::Wish,
};
use crate::error::error;

/// Contexts that are at their end just when they are asked are few.
const ATTEMPTS: usize = 5;

type Contexts = BTreeMap<String, Arc<Context>>;

/// A clone is the same table.
#[derive(Clone)]
pub(super) struct Table {
    maker: Maker,
    contexts: Arc<Mutex<Contexts>>,
}

/// How a context is made when there is none.
pub(super) struct Make {
    pub language: String,
    pub spec: Spec,
    pub idle: Option<Duration>,
    pub max_contexts: usize,
    /// What it is to run first, if that is known.
    pub first: Option<Arc<Wish>>,
}

impl Table {
    pub fn new(maker: Maker) -> Self {
        Self {
            maker,
            contexts: Arc::default(),
        }
    }

    fn contexts(&self) -> MutexGuard<'_, Contexts> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn all(&self) -> Vec<(String, Arc<Context>)> {
        let contexts = self.contexts();
        let both = |(name, context): (&String, &Arc<Context>)| (name.clone(), Arc::clone(context));
        contexts.iter().map(both).collect()
    }

    fn get(&self, name: &str) -> Result<Arc<Context>, ConnectError> {
        self.contexts()
            .get(name)
            .cloned()
            .ok_or_else(|| error(ErrorCode::NotFound, "there is no such context"))
    }

    /// Has the work begun, in a new context if there is none.
    pub async fn take(
        &self,
        name: &str,
        make: &Make,
        mut work: impl FnMut() -> Work,
    ) -> Result<(), ConnectError> {
        for _ in 0..ATTEMPTS {
            let context = self.get_or_make(name, make)?;
            match context.take(work()).await? {
                Taken::Begun => return Ok(()),
                Taken::Gone => context.gone().await,
            }
        }
        Err(error(
            ErrorCode::SandboxExhausted,
            "the context ended each time that it was started",
        ))
    }

    fn get_or_make(&self, name: &str, make: &Make) -> Result<Arc<Context>, ConnectError> {
        let mut contexts = self.contexts();
        if let Some(context) = contexts.get(name) {
            if context.language != make.language {
                return Err(error(
                    ErrorCode::ContextMismatch,
                    format!(
                        "the context is one of `{}`; delete it, or use another name",
                        context.language
                    ),
                ));
            }
            return Ok(Arc::clone(context));
        }
        if contexts.len() >= make.max_contexts {
            return Err(error(
                ErrorCode::ContextLimitReached,
                format!(
                    "the session has {} contexts, and may have no more; delete one",
                    contexts.len()
                ),
            ));
        }
        let (table, known_as) = (self.clone(), name.to_owned());
        let context = Context::begin(&self.maker, make, move || table.forget(&known_as));
        contexts.insert(name.to_owned(), Arc::clone(&context));
        Ok(context)
    }

    /// Only ever of the one that ends: its name is taken until then.
    fn forget(&self, name: &str) {
        self.contexts().remove(name);
    }

    pub async fn delete(&self, name: &str) -> Result<(), ConnectError> {
        self.get(name)?.end().await
    }

    /// Ends the interpreter and starts another one.
    pub async fn restart(&self, name: &str) -> Result<Arc<Context>, ConnectError> {
        let context = self.get(name)?;
        context.end().await?;
        let make = Make {
            language: context.language.clone(),
            spec: context.spec.clone(),
            idle: context.idle,
            // It takes the place of the one before.
            max_contexts: usize::MAX,
            first: None,
        };
        self.take(name, &make, || Work::Start).await?;
        self.get(name)
    }
}
