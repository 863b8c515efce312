//! The guest on the daemon: a volume that every container sees read-only.

use bollard::{
    Docker,
    models::VolumeCreateRequest,
    query_parameters::{ListVolumesOptions, RemoveVolumeOptions},
};
use bytes::Bytes;
use sandbox_core::Result;
use sha2::{Digest as _, Sha256};

use crate::{
    error::{failed, is_conflict, is_missing},
    helper,
    names::{GUEST, Names, hex},
};

pub(crate) const FOLDER: &str = "/.sandbox";
pub(crate) const PROGRAM: &str = "/.sandbox/guest";
const FILE: &str = "guest";
/// Of the hash, in the volume's name.
const VERSION_CHARS: usize = 16;

/// A guest, and the name of its volume.
#[derive(Clone)]
pub(crate) struct Guest {
    program: Bytes,
    version: String,
    volume: String,
}

impl Guest {
    pub fn new(program: Bytes, names: &Names) -> Self {
        let version = hex(&Sha256::digest(&program))[..VERSION_CHARS].to_owned();
        Self {
            program,
            volume: names.of_guest(&version),
            version,
        }
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    /// Not shared with other services: one that fills it must not disturb the
    /// starts of another.
    pub fn volume(&self) -> &str {
        &self.volume
    }

    /// Sees to it that the volume is there, with the guest in it.
    pub async fn install(&self, docker: &Docker, names: &Names, image: &str) -> Result<()> {
        let mut labels = names.own("guest");
        labels.insert(GUEST.into(), self.version.clone());
        let volume = VolumeCreateRequest {
            name: Some(self.volume.clone()),
            labels: Some(labels),
            ..Default::default()
        };
        let make = || async {
            let made = docker.create_volume(volume.clone()).await;
            made.map_err(|error| failed("make the volume of the guest", error))
        };
        if !make().await?.labels.contains_key(GUEST) {
            remove(docker, &self.volume).await?;
            make().await?;
        }
        let mut program = tar::Header::new_gnu();
        program.set_mode(0o755);
        let put = helper::Put {
            image,
            volume: &self.volume,
            at: FOLDER,
            path: FOLDER,
            archive: helper::archive(&mut program, FILE, &self.program)?,
        };
        helper::put(docker, names, put).await
    }

    pub async fn uninstall(&self, docker: &Docker) -> Result<()> {
        remove(docker, &self.volume).await
    }

    /// Whether the volume is the one that [`Guest::install`] has made: where that was
    /// removed, a container that wants it makes another, empty and without labels.
    pub async fn is_installed(&self, docker: &Docker) -> Result<bool> {
        match docker.inspect_volume(&self.volume).await {
            Ok(volume) => Ok(volume.labels.contains_key(GUEST)),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(failed("show the guest", error)),
        }
    }

    /// Removes guests of other versions that no container uses.
    pub async fn remove_others(&self, docker: &Docker, names: &Names) -> Result<()> {
        let options = ListVolumesOptions {
            filters: Some(names.filter("guest")),
        };
        let found = docker
            .list_volumes(Some(options))
            .await
            .map_err(|error| failed("list its volumes", error))?;
        let volumes = found.volumes.unwrap_or_default().into_iter();
        for volume in volumes.filter(|volume| volume.name != self.volume) {
            remove(docker, &volume.name).await?;
        }
        Ok(())
    }
}

async fn remove(docker: &Docker, volume: &str) -> Result<()> {
    match docker
        .remove_volume(volume, None::<RemoveVolumeOptions>)
        .await
    {
        Ok(()) => Ok(()),
        // One that is in use is not removed.
        Err(error) if is_missing(&error) || is_conflict(&error) => Ok(()),
        Err(error) => Err(failed("remove a guest", error)),
    }
}
