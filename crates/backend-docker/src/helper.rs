//! A container that is never started: through it the daemon reaches a volume.

use bollard::{
    Docker, body_full,
    models::{ContainerCreateBody, HostConfig, Mount, MountType, MountVolumeOptions},
    query_parameters::{CreateContainerOptions, UploadToContainerOptions},
};
use bytes::Bytes;
use sandbox_core::{Error, Result};
use uuid::Uuid;

use crate::{error::failed, names::Names, place};

/// What it puts into a volume.
pub(crate) struct Put<'a> {
    pub image: &'a str,
    pub volume: &'a str,
    /// Where the volume is mounted.
    pub at: &'a str,
    /// Where in the container the archive is unpacked.
    pub path: &'a str,
    pub archive: Bytes,
}

/// The daemon unpacks an archive into a volume; no container runs for it.
pub(crate) async fn put(docker: &Docker, names: &Names, put: Put<'_>) -> Result<()> {
    let body = ContainerCreateBody {
        image: Some(put.image.into()),
        // Never run; the daemon wants one where the image has none.
        entrypoint: Some(vec!["/none".into()]),
        labels: Some(names.own("helper")),
        network_disabled: Some(true),
        host_config: Some(HostConfig {
            network_mode: Some("none".into()),
            cap_drop: Some(vec!["ALL".into()]),
            mounts: Some(vec![Mount {
                typ: Some(MountType::VOLUME),
                source: Some(put.volume.into()),
                target: Some(put.at.into()),
                volume_options: Some(MountVolumeOptions {
                    no_copy: Some(true),
                    ..Default::default()
                }),
                ..Default::default()
            }]),
            ..Default::default()
        }),
        ..Default::default()
    };
    let name = format!("sandboxd-helper-{}", Uuid::new_v4().simple());
    let options = CreateContainerOptions {
        name: Some(name.clone()),
        ..Default::default()
    };
    docker
        .create_container(Some(options), body)
        .await
        .map_err(|error| failed("make a container", error))?;
    let options = UploadToContainerOptions {
        path: put.path.into(),
        ..Default::default()
    };
    let done = docker
        .upload_to_container(&name, Some(options), body_full(put.archive))
        .await
        .map_err(|error| failed("fill a volume", error));
    place::remove(docker, &name).await;
    done
}

/// An archive of one entry.
pub(crate) fn archive(header: &mut tar::Header, path: &str, data: &[u8]) -> Result<Bytes> {
    header.set_size(data.len() as u64);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::with_capacity(data.len() + 4096));
    archive
        .append_data(header, path, data)
        .and_then(|()| archive.into_inner())
        .map(Bytes::from)
        .map_err(Error::internal)
}
