//! The images that containers are made of.

use std::time::Duration;

use bollard::{Docker, query_parameters::CreateImageOptions};
use futures::StreamExt as _;
use sandbox_core::Result;
use tracing::info;

use crate::{
    config::{DockerConfig, PullPolicy},
    error::{failed, is_missing, unavailable},
    names::WORKSPACE,
};

/// Between two lines of the log on the progress of a pull.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// What matters of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    /// A new volume on its /workspace belongs to the user of programs.
    pub owns_workspace: bool,
    /// Docker makes volumes for some of its folders, without a size.
    pub has_volumes: bool,
}

/// `None` when the daemon does not have it.
pub(crate) async fn look(docker: &Docker, name: &str) -> Result<Option<Image>> {
    match docker.inspect_image(name).await {
        Ok(image) => {
            let config = image.config.unwrap_or_default();
            let value = config.labels.and_then(|mut it| it.remove(WORKSPACE));
            let user = crate::container::USER.to_string();
            Ok(Some(Image {
                owns_workspace: value.as_deref() == Some(user.as_str()),
                has_volumes: config.volumes.is_some_and(|it| !it.is_empty()),
            }))
        }
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(failed("show the image", error)),
    }
}

/// The image, pulled when it is not there and the operator lets it.
pub(crate) async fn ensure(docker: &Docker, name: &str, config: &DockerConfig) -> Result<Image> {
    if let Some(image) = look(docker, name).await? {
        return Ok(image);
    }
    if config.pull == PullPolicy::Never {
        return Err(unavailable(
            "the image of sandboxes is not on the Docker daemon, and is not to be pulled",
        ));
    }
    tokio::time::timeout(config.pull_limit, pull(docker, name))
        .await
        .map_err(|_| unavailable("the image of sandboxes was not pulled in time"))??;
    look(docker, name)
        .await?
        .ok_or_else(|| unavailable("the image of sandboxes was pulled and is not there"))
}

async fn pull(docker: &Docker, name: &str) -> Result<()> {
    info!(image = name, "pulling the image of sandboxes");
    // Without a tag the daemon would pull all of them.
    let tagged = name.contains('@') || name.rsplit('/').next().is_some_and(|it| it.contains(':'));
    let options = CreateImageOptions {
        from_image: Some(name.to_owned()),
        tag: (!tagged).then(|| "latest".to_owned()),
        ..Default::default()
    };
    let mut progress = docker.create_image(Some(options), None, None);
    let mut told = tokio::time::Instant::now();
    while let Some(step) = progress.next().await {
        let step = step.map_err(|error| failed("pull the image of sandboxes", error))?;
        if told.elapsed() >= PROGRESS_INTERVAL {
            told = tokio::time::Instant::now();
            let progress = step.progress_detail.unwrap_or_default();
            info!(
                image = name,
                layer = step.id,
                bytes = progress.current,
                of = progress.total,
                "{}",
                step.status.unwrap_or_default()
            );
        }
    }
    info!(image = name, "pulled the image of sandboxes");
    Ok(())
}
