//! Images, runtimes and devices: what is there and what is not.

use backend_docker::{Gpu, PullPolicy};
use sandbox_backend::Backend as _;
use sandbox_core::{ErrorCode, SandboxSpec};

use crate::support::{Docker, id, says, soon};

fn of_image(image: &str) -> SandboxSpec {
    SandboxSpec {
        image: Some(image.to_owned()),
        ..SandboxSpec::default()
    }
}

#[tokio::test]
async fn an_image_that_is_not_there_is_refused_or_pulled_in_bounded_time() {
    for pull in [PullPolicy::Never, PullPolicy::Missing] {
        let docker = Docker::with(|config| {
            config.image = "127.0.0.1:9/none:none".into();
            config.pull = pull;
        });
        let Some(docker) = docker else { return };
        let refused = soon(docker.backend.create(&id(1), &SandboxSpec::default())).await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.code(), ErrorCode::BackendUnavailable);
        let ready = docker.backend.check().await;
        if pull == PullPolicy::Never {
            assert!(ready.problems[0].what.contains("none:none"), "{ready:?}");
        }
        assert!(docker.containers().is_empty() && docker.volumes().is_empty());
    }
}

#[tokio::test]
async fn an_image_that_is_slow_to_come_holds_up_no_other() {
    // A registry that takes calls and answers none.
    let registry = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = format!("{}/slow:latest", registry.local_addr().unwrap());
    let docker = Docker::with(|config| {
        config.images = vec![slow.clone()];
        config.pull = PullPolicy::Missing;
    });
    let Some(docker) = docker else { return };
    let place = docker.start(1).await;
    let (slow_id, slow_spec) = (id(2), of_image(&slow));
    tokio::select! {
        biased;
        _ = docker.backend.create(&slow_id, &slow_spec) => panic!("its image has not come"),
        place = async {
            registry.set_nonblocking(true).unwrap();
            let registry = tokio::net::TcpListener::from_std(registry).unwrap();
            let _call = soon(registry.accept()).await.unwrap();
            tokio::time::timeout(std::time::Duration::from_secs(5), docker.start(3)).await
        } => place.unwrap().stop().await.unwrap(),
    }
    place.stop().await.unwrap();
    for n in [1, 3] {
        docker.backend.remove(&id(n)).await.unwrap();
    }
}

#[tokio::test]
async fn only_images_that_the_operator_allows_are_used() {
    let tag = format!("sandboxd-test-other:{}", std::process::id());
    let Some(docker) = Docker::with(|config| config.images = vec![tag.clone()]) else {
        return;
    };
    // With a volume and a health check of its own, as images may have.
    let made = docker.docker(&["create", test_docker::IMAGE, "true"]);
    docker.docker(&[
        "commit",
        "--change",
        "ENV OF_IMAGE=1",
        "--change",
        "VOLUME /data",
        "--change",
        "HEALTHCHECK --interval=1s CMD true",
        "--change",
        "USER root",
        "--change",
        "ENTRYPOINT [\"/bin/false\"]",
        &made,
        &tag,
    ]);
    docker.docker(&["rm", &made]);
    let place = docker.start_with(1, &of_image(&tag)).await;
    assert_eq!(says(&place, "echo $OF_IMAGE; id -u").await, "1\n65532\n");
    let container = &docker.containers()[0];
    let anonymous = docker.inspect(
        container,
        "{{range .Mounts}}{{if eq .Destination \"/data\"}}{{.Name}}{{end}}{{end}}",
    );
    assert_eq!(
        docker.inspect(container, "{{.Config.Healthcheck.Test}}"),
        "[NONE]"
    );
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
    let volumes = docker.docker(&["volume", "ls", "-q"]);
    assert!(!anonymous.is_empty() && !volumes.contains(&anonymous));
    let refused = docker
        .backend
        .create(&id(2), &of_image("other:latest"))
        .await;
    assert_eq!(refused.err().unwrap().code(), ErrorCode::Unsupported);
    docker.docker(&["rmi", &tag]);
}

#[tokio::test]
async fn a_workspace_that_the_image_has_is_copied_into_the_volume() {
    let tag = format!("sandboxd-test-workspace:{}", std::process::id());
    let Some(docker) = Docker::with(|config| config.image = tag.clone()) else {
        return;
    };
    let make = "mkdir /workspace && echo given > /workspace/f && chown -R 65532 /workspace";
    docker.make_image(&tag, make, "LABEL dev.sandboxd.workspace=65532");
    let place = docker.start(1).await;
    assert_eq!(
        says(&place, "cat f; echo more >> f; stat -c %u .").await,
        "given\n65532\n"
    );
    place.stop().await.unwrap();
    let place = docker.start(1).await;
    assert_eq!(says(&place, "cat f").await, "given\nmore\n");
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
    docker.docker(&["rmi", &tag]);
}

#[tokio::test]
async fn a_runtime_or_a_gpu_that_the_daemon_lacks_is_refused_clearly() {
    let runtime = Docker::with(|config| config.runtime = Some("no-such-runtime".into()));
    let gpu = Docker::with(|config| config.gpu = Some(Gpu { network: None }));
    for (docker, word) in [(runtime, "no-such-runtime"), (gpu, "nvidia")] {
        let Some(docker) = docker else { return };
        let ready = docker.backend.check().await;
        assert!(ready.problems[0].what.contains(word), "{ready:?}");
        let refused = docker.backend.create(&id(1), &SandboxSpec::default()).await;
        let refused = refused.err().unwrap();
        assert_eq!(refused.code(), ErrorCode::BackendUnavailable);
        assert!(refused.detail().contains(word), "{}", refused.detail());
        assert!(docker.containers().is_empty());
    }
}
