//! Files that runs made: found, copied and described, so that they stay what
//! they were. The copies are in `.sandbox/artifacts`.

mod changes;
mod keep;
mod kind;
mod remove;
mod reported;
mod walk;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use sandbox_wire::sandbox::v1::RunResponse;

pub(crate) use changes::{LastChange, Moment};
pub(crate) use keep::{About, Keeper};
pub(crate) use remove::remove;
pub(crate) use reported::Reported;

use crate::{run::EventSender, state::Guest};

/// How long the files of one run are looked for and copied.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Finds the files that a run made since it began and sends each as it is
/// kept; gives what keeping came to, and whether all of them were looked at.
pub(crate) async fn find(
    guest: &Arc<Guest>,
    since: Moment,
    mut keeper: Keeper,
    events: &EventSender,
) -> (Keeper, bool) {
    let until = Instant::now() + TIME_LIMIT;
    let gone = events.clone();
    let go_on = move || Instant::now() < until && !gone.is_closed();
    let walking = (Arc::clone(guest), go_on.clone());
    let found = tokio::task::spawn_blocking(move || {
        let (guest, go_on) = walking;
        let mut found = walk::changed_since(&guest.workspace, since, go_on);
        guest.reported.retain_new(&mut found.files);
        found
    });
    let Ok(found) = found.await else {
        return (keeper, false);
    };
    let looked = found.omitted == 0 && go_on();
    keeper.omit(found.omitted);
    for file in found.files {
        if !go_on() {
            keeper.omit(1);
            continue;
        }
        let (guest, go_on) = (Arc::clone(guest), go_on.clone());
        let kept = tokio::task::spawn_blocking(move || {
            let artifact = keep_found(&mut keeper, &guest.workspace, &file, &go_on);
            (keeper, artifact)
        });
        let Ok((back, artifact)) = kept.await else {
            // The thread has it: nothing more can be kept.
            return (Keeper::new(None), false);
        };
        keeper = back;
        if let Some(artifact) = artifact {
            let event = RunResponse {
                event: artifact.into(),
                ..Default::default()
            };
            let _ = events.send(Ok(event)).await;
        }
    }
    (keeper, looked)
}

fn keep_found(
    keeper: &mut Keeper,
    workspace: &Path,
    file: &walk::Found,
    go_on: &impl Fn() -> bool,
) -> Option<sandbox_wire::sandbox::v1::Artifact> {
    let Ok(opened) = walk::open(workspace, &file.path) else {
        keeper.omit(1);
        return None;
    };
    let about = About {
        name: file
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        path: Some(file.path.to_string_lossy().into_owned()),
        is_plot: keeper.is_plot(&file.path),
    };
    keeper.keep(workspace, &opened, about, go_on)
}
