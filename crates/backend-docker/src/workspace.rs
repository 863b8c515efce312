//! Workspaces: volumes that belong to the user that programs run as.

use std::collections::HashMap;

use bollard::{
    Docker,
    models::VolumeCreateRequest,
    query_parameters::{ListVolumesOptions, RemoveVolumeOptions},
};
use sandbox_core::{Result, SandboxId};

use crate::{
    container::{USER, WORKSPACE},
    error::{failed, is_missing},
    helper,
    names::{Names, SANDBOX},
};

/// Smallest volume that is asked for to see whether volumes can have sizes.
const PROBE_BYTES: u64 = 1 << 20;

/// Whether the daemon's storage keeps volumes within a size: its `local` driver does
/// on file systems with project quotas (XFS with `pquota`, ext4 with `prjquota`), and
/// says so where it cannot.
pub(crate) async fn has_quota(docker: &Docker, names: &Names) -> Result<bool> {
    let name = names.of_probe();
    let volume = VolumeCreateRequest {
        name: Some(name.clone()),
        labels: Some(names.own("probe")),
        driver_opts: Some(sized(PROBE_BYTES)),
        ..Default::default()
    };
    let has = docker.create_volume(volume).await.is_ok();
    remove_named(docker, &name).await?;
    Ok(has)
}

fn sized(bytes: u64) -> HashMap<String, String> {
    HashMap::from([("size".to_owned(), bytes.to_string())])
}

/// Makes the volume of a sandbox, unless it is there, and tells whether it has a size:
/// one from before the storage kept sizes has none.
pub(crate) async fn make(
    docker: &Docker,
    names: &Names,
    id: &SandboxId,
    quota: Option<u64>,
) -> Result<bool> {
    let volume = VolumeCreateRequest {
        name: Some(names.of(id)),
        labels: Some(names.labels(id)),
        driver_opts: quota.map(sized),
        ..Default::default()
    };
    docker
        .create_volume(volume)
        .await
        .map(|volume| volume.options.contains_key("size"))
        .map_err(|error| failed("make the workspace", error))
}

/// Gives the workspace to the user that programs run as; what is in it stays as it is.
pub(crate) async fn give_to_user(
    docker: &Docker,
    names: &Names,
    image: &str,
    id: &SandboxId,
) -> Result<()> {
    let mut folder = tar::Header::new_gnu();
    folder.set_entry_type(tar::EntryType::Directory);
    folder.set_mode(0o755);
    folder.set_uid(USER.into());
    folder.set_gid(USER.into());
    let put = helper::Put {
        image,
        volume: &names.of(id),
        at: WORKSPACE,
        path: "/",
        archive: helper::archive(&mut folder, WORKSPACE.trim_start_matches('/'), b"")?,
    };
    helper::put(docker, names, put).await
}

/// The sandboxes that have one.
pub(crate) async fn list(docker: &Docker, names: &Names) -> Result<Vec<SandboxId>> {
    let options = ListVolumesOptions {
        filters: Some(names.filter("sandbox")),
    };
    let found = docker
        .list_volumes(Some(options))
        .await
        .map_err(|error| failed("list its volumes", error))?;
    let volumes = found.volumes.unwrap_or_default().into_iter();
    Ok(volumes
        .filter_map(|mut volume| volume.labels.remove(SANDBOX)?.parse().ok())
        .collect())
}

pub(crate) async fn remove(docker: &Docker, names: &Names, id: &SandboxId) -> Result<()> {
    remove_named(docker, &names.of(id)).await
}

async fn remove_named(docker: &Docker, name: &str) -> Result<()> {
    let options = None::<RemoveVolumeOptions>;
    match docker.remove_volume(name, options).await {
        Ok(()) => Ok(()),
        Err(error) if is_missing(&error) => Ok(()),
        Err(error) => Err(failed("remove the workspace", error)),
    }
}
