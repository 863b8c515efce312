//! A gate of the test's own, before the daemon that there is.

use std::{
    collections::HashMap,
    env,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use bollard::{
    API_DEFAULT_VERSION, Docker, body_full,
    models::{
        ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, MountVolumeOptions,
        VolumeCreateRequest,
    },
    query_parameters::{
        CreateContainerOptionsBuilder, ListContainersOptionsBuilder, ListVolumesOptionsBuilder,
        RemoveContainerOptionsBuilder, RemoveVolumeOptions, UploadToContainerOptionsBuilder,
    },
};
use docker_gate::{GateLimits, Listener, Policy, serve};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::oneshot,
};

const TIMEOUT_SECONDS: u64 = 60;

/// A gate, the daemon behind it, and what of the test's is on it.
pub struct Gate {
    /// Through the gate, as the service.
    pub docker: Docker,
    /// Past it, as the host's root.
    pub daemon: Docker,
    socket: PathBuf,
    upstream: PathBuf,
    /// Begins all names of this test.
    pub name: String,
    image: String,
    _folder: TempDir,
    stop: Option<oneshot::Sender<()>>,
}

/// The gate, or `None` where there is no daemon: then the test says so, and fails
/// in CI.
pub async fn gate(policy: Policy) -> Option<Gate> {
    gate_with(policy, GateLimits::default()).await
}

pub async fn gate_with(policy: Policy, limits: GateLimits) -> Option<Gate> {
    let upstream = daemon_socket()?;
    let daemon = client(&upstream);
    daemon.ping().await.unwrap();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("gate.sock");
    let listener = Listener::bind(socket.to_str().unwrap()).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let behind = upstream.clone();
    tokio::spawn(async move {
        let stopped = async {
            let _ = stopped.await;
        };
        serve(listener, policy, behind, limits, stopped).await;
    });
    Some(Gate {
        docker: client(&socket),
        daemon,
        socket,
        upstream,
        // No name is the beginning of another one's.
        name: format!("sandboxd-gatetest-{}-{count}-t", std::process::id()),
        image: image(),
        _folder: folder,
        stop: Some(stop),
    })
}

/// That of DOCKER_HOST, or the daemon that all tests share.
fn daemon_socket() -> Option<PathBuf> {
    let host = match env::var("DOCKER_HOST") {
        Ok(host) => host,
        Err(_) => test_docker::host()?.to_owned(),
    };
    let path = host.strip_prefix("unix://");
    Some(path.expect("the gate stands before a socket").into())
}

pub fn image() -> String {
    env::var("DOCKER_TEST_IMAGE").unwrap_or_else(|_| test_docker::IMAGE.into())
}

fn client(socket: &Path) -> Docker {
    let path = socket.to_str().unwrap();
    Docker::connect_with_socket(path, TIMEOUT_SECONDS, API_DEFAULT_VERSION).unwrap()
}

pub fn labels() -> HashMap<String, String> {
    [
        ("dev.sandboxd.owner", "gate-test"),
        ("dev.sandboxd.kind", "sandbox"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

impl Gate {
    pub fn named(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }

    /// Where the gate listens, as in DOCKER_HOST.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Ends the gate, and not what it has let through.
    pub fn end(&mut self) {
        self.stop = None;
    }

    /// Sends bytes as they are, and gives back all of the answer.
    pub async fn raw(&self, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        // A reset after the answer is an end too.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub async fn post(&self, path: &str, body: &str) -> String {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: docker\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        self.raw(request.as_bytes()).await
    }

    pub async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).await.unwrap()
    }

    pub async fn make_volume(&self, what: &str) -> String {
        let name = self.named(what);
        let volume = VolumeCreateRequest {
            name: Some(name.clone()),
            labels: Some(labels()),
            ..Default::default()
        };
        self.docker.create_volume(volume).await.unwrap();
        name
    }

    /// A container that is never started.
    pub fn helper(&self, volume: &str, at: &str) -> ContainerCreateBody {
        ContainerCreateBody {
            image: Some(self.image.clone()),
            entrypoint: Some(vec!["/none".into()]),
            network_disabled: Some(true),
            labels: Some(labels()),
            host_config: Some(HostConfig {
                network_mode: Some("none".into()),
                mounts: Some(vec![mount(volume, at, false)]),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// A container as the service makes them.
    pub fn sandbox(&self, guest: &str, workspace: &str) -> ContainerCreateBody {
        ContainerCreateBody {
            image: Some(self.image.clone()),
            hostname: Some("sandbox".into()),
            user: Some("65532:65532".into()),
            working_dir: Some("/workspace".into()),
            env: Some(vec!["HOME=/workspace".into()]),
            entrypoint: Some(vec!["/.sandbox/guest".into()]),
            labels: Some(labels()),
            open_stdin: Some(true),
            stdin_once: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            network_disabled: Some(true),
            host_config: Some(HostConfig {
                mounts: Some(vec![
                    mount(guest, "/.sandbox", true),
                    mount(workspace, "/workspace", false),
                ]),
                memory: Some(256 << 20),
                memory_swap: Some(256 << 20),
                nano_cpus: Some(1_000_000_000),
                pids_limit: Some(64),
                network_mode: Some("none".into()),
                ipc_mode: Some("private".into()),
                shm_size: Some(1 << 20),
                tmpfs: Some(HashMap::from([(
                    "/tmp".into(),
                    "rw,nosuid,nodev,size=1048576,mode=1777".into(),
                )])),
                readonly_rootfs: Some(true),
                cap_drop: Some(vec!["ALL".into()]),
                privileged: Some(false),
                security_opt: Some(vec!["no-new-privileges:true".into()]),
                init: Some(false),
                log_config: Some(HostConfigLogConfig {
                    typ: Some("none".into()),
                    config: None,
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    pub async fn create(
        &self,
        what: &str,
        body: ContainerCreateBody,
    ) -> Result<String, bollard::errors::Error> {
        let name = self.named(what);
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let made = self.docker.create_container(Some(options), body).await?;
        Ok(made.id)
    }

    pub async fn put(
        &self,
        container: &str,
        path: &str,
        archive: Vec<u8>,
    ) -> Result<(), bollard::errors::Error> {
        let options = UploadToContainerOptionsBuilder::default()
            .path(path)
            .build();
        let body = body_full(archive.into());
        self.docker
            .upload_to_container(container, Some(options), body)
            .await
    }

    /// A volume with a script as the guest in it.
    pub async fn guest(&self, script: &str) -> String {
        let volume = self.make_volume("guest").await;
        let helper = self
            .create("installer", self.helper(&volume, "/.sandbox"))
            .await
            .unwrap();
        self.put(&helper, "/.sandbox", file("guest", script.as_bytes()))
            .await
            .unwrap();
        self.remove(&helper).await.unwrap();
        volume
    }

    pub async fn remove(&self, container: &str) -> Result<(), bollard::errors::Error> {
        let options = RemoveContainerOptionsBuilder::default()
            .force(true)
            .v(true)
            .build();
        self.docker.remove_container(container, Some(options)).await
    }
}

/// Removes all that the test has made, past the gate, also where it failed.
impl Drop for Gate {
    fn drop(&mut self) {
        let name = self.name.trim_start_matches("sandboxd-").to_owned();
        let socket = self.upstream.clone();
        let clean = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(clean(&client(&socket), &name));
        });
        assert!(clean.join().is_ok() || std::thread::panicking());
    }
}

/// What has the test's name in its own, and what the backend made for it.
async fn clean(daemon: &Docker, name: &str) {
    let owner = format!("dev.sandboxd.owner=sandboxd-{name}");
    for (filter, value) in [("name", name), ("label", &owner)] {
        let filters = HashMap::from([(filter, vec![value])]);
        let options = ListContainersOptionsBuilder::default()
            .all(true)
            .filters(&filters)
            .build();
        for found in daemon.list_containers(Some(options)).await.unwrap() {
            let options = RemoveContainerOptionsBuilder::default().force(true).build();
            let id = found.id.unwrap();
            daemon.remove_container(&id, Some(options)).await.unwrap();
        }
        let options = ListVolumesOptionsBuilder::default()
            .filters(&filters)
            .build();
        let found = daemon.list_volumes(Some(options)).await.unwrap();
        for volume in found.volumes.unwrap_or_default() {
            let none = None::<RemoveVolumeOptions>;
            daemon.remove_volume(&volume.name, none).await.unwrap();
        }
    }
}

pub fn mount(source: &str, target: &str, read_only: bool) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(source.into()),
        target: Some(target.into()),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(true),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub fn file(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    // Names too that the writer would not take.
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(content.len() as u64);
    header.set_mode(0o755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&header, content).unwrap();
    archive.into_inner().unwrap()
}

/// The status of an error that the gate or the daemon answered.
pub fn status<T: std::fmt::Debug>(result: Result<T, bollard::errors::Error>) -> (u16, String) {
    match result {
        Err(bollard::errors::Error::DockerResponseServerError {
            status_code,
            message,
        }) => (status_code, message),
        other => panic!("not an answer that refuses: {other:?}"),
    }
}
