//! What the daemon tells: containers that died, and why.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bollard::{
    Docker,
    models::{EventMessage, EventMessageTypeEnum},
    query_parameters::EventsOptions,
};
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::names::{Names, SANDBOX};

/// Between two tries to hear the daemon again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Who wants to know of the end of which container; a clone is the same list.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Waiting>>);

/// By container.
type Waiting = HashMap<String, CancellationToken>;

/// Of one container; while this lives, it is waited for.
pub(crate) struct Death {
    events: Events,
    container: String,
    token: CancellationToken,
}

impl Events {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn of(&self, container: &str) -> Death {
        let token = CancellationToken::new();
        self.waiting().insert(container.to_owned(), token.clone());
        Death {
            events: self.clone(),
            container: container.to_owned(),
            token,
        }
    }

    /// Listens as long as somebody has the list.
    pub fn listen(&self, docker: Docker, names: Names) {
        let waiting = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            while let Some(events) = upgrade(&waiting) {
                drop(events);
                listen_once(&waiting, &docker, &names).await;
                tokio::time::sleep(TRY_AGAIN).await;
            }
        });
    }

    fn happened(&self, event: &EventMessage) {
        let actor = event.actor.clone().unwrap_or_default();
        let (Some(container), attributes) = (actor.id, actor.attributes.unwrap_or_default()) else {
            return;
        };
        let sandbox = attributes.get(SANDBOX).map_or("", String::as_str);
        match event.action.as_deref() {
            // Programs can bring it about as often as they like.
            Some("oom") => debug!(sandbox.id = sandbox, "a sandbox has used up its memory"),
            Some("die" | "destroy") => {
                let code = attributes.get("exitCode").map_or("", String::as_str);
                debug!(sandbox.id = sandbox, code, "a container has ended");
                if let Some(token) = self.waiting().get(&container) {
                    token.cancel();
                }
            }
            _ => {}
        }
    }
}

fn upgrade(waiting: &Weak<Mutex<Waiting>>) -> Option<Events> {
    waiting.upgrade().map(Events)
}

async fn listen_once(waiting: &Weak<Mutex<Waiting>>, docker: &Docker, names: &Names) {
    let mut filters = names.filter("sandbox");
    filters.insert(
        "type".into(),
        vec![EventMessageTypeEnum::CONTAINER.to_string()],
    );
    let options = EventsOptions {
        filters: Some(filters),
        ..Default::default()
    };
    let mut events = docker.events(Some(options));
    while let Some(event) = events.next().await {
        match (upgrade(waiting), event) {
            (Some(listeners), Ok(event)) => listeners.happened(&event),
            // Connections to containers tell of their end too.
            (_, Err(error)) => {
                warn!("the daemon tells no more events, asking again: {error}");
                return;
            }
            (None, _) => return,
        }
    }
}

impl Death {
    pub async fn told(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Death {
    fn drop(&mut self) {
        self.events.waiting().remove(&self.container);
    }
}
