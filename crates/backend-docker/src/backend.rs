//! The backend: makes, finds and removes containers and their volumes.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bollard::{
    Docker,
    query_parameters::{
        AttachContainerOptions, CreateContainerOptions, KillContainerOptions, StartContainerOptions,
    },
};
use guest_client::{GuestClient, GuestConfig, TAKEOVER_SIGNAL, take_over};
use sandbox_backend::{Backend, Earlier, Found, Place, Problem, Readiness};
use sandbox_core::{
    Capabilities, Capability, Enforcement, Error, ErrorCode, Result, SandboxId, SandboxSpec, chain,
};
use tokio::{sync::OnceCell, time::timeout};
use tracing::{info, warn};

use crate::{
    config::{DockerConfig, PullPolicy},
    connection::{Complaint, Connection, connection},
    container::{self, Shape},
    daemon::Daemon,
    error::{failed, is_conflict, unavailable},
    guest_volume::Guest,
    image::{self, Image},
    names::{GUEST, Names},
    place::{self, DockerPlace},
    survivors::{Survivor, Survivors},
    workspace,
};

/// How long an earlier container with the same id may take to be gone.
const EARLIER_LIMIT: Duration = Duration::from_secs(20);
/// How long a container that has outlived its service may take to answer the next one.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(5);

pub struct DockerBackend {
    config: Arc<DockerConfig>,
    daemon: Daemon,
    names: Names,
    guest: Guest,
    /// Images that are on the daemon; whoever waits for one holds up no other.
    images: Mutex<HashMap<String, Arc<OnceCell<Image>>>>,
    /// Whether the guest is on the daemon; held while it is put there.
    installed: tokio::sync::Mutex<bool>,
    /// The storage keeps volumes within their sizes.
    quota: AtomicBool,
    /// Workspaces that programs can write, as far as this service knows.
    given: Mutex<BTreeSet<SandboxId>>,
    earlier: Earlier,
    survivors: Survivors,
}

impl DockerBackend {
    /// The daemon is not asked yet.
    pub fn new(config: DockerConfig) -> Arc<Self> {
        let names = Names::new(&config.owner);
        Arc::new(Self {
            daemon: Daemon::new(config.host.clone(), names.clone()),
            guest: Guest::new(config.guest.clone(), &names),
            names,
            images: Mutex::default(),
            installed: tokio::sync::Mutex::default(),
            quota: AtomicBool::new(false),
            given: Mutex::default(),
            earlier: Earlier::new(EARLIER_LIMIT),
            survivors: Survivors::default(),
            config: Arc::new(config),
        })
    }

    /// Sees to it that the image and the guest are on the daemon, so that the first
    /// sandbox need not wait for them, and removes guests that nobody uses.
    pub async fn warm_up(&self) -> Result<()> {
        let docker = self.daemon.client().await?;
        self.prepare(docker, &self.config.image).await?;
        self.guest.remove_others(docker, &self.names).await
    }

    /// The daemon, once it is known what runs on it since before this service.
    async fn client(&self) -> Result<&Docker> {
        let docker = self.daemon.client().await?;
        self.survivors
            .find_once(docker, &self.names, self.guest.version())
            .await?;
        Ok(docker)
    }

    fn has_quota(&self) -> bool {
        self.quota.load(Ordering::Relaxed)
    }

    fn given(&self) -> MutexGuard<'_, BTreeSet<SandboxId>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn images(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<Image>>>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The image and the guest, made available once.
    async fn prepare(&self, docker: &Docker, image: &str) -> Result<Image> {
        let cell = Arc::clone(self.images().entry(image.to_owned()).or_default());
        let found = *cell
            .get_or_try_init(|| self.prepare_image(docker, image))
            .await?;
        let mut installed = self.installed.lock().await;
        if !*installed {
            let quota = workspace::has_quota(docker, &self.names).await?;
            self.quota.store(quota, Ordering::Relaxed);
            self.guest.install(docker, &self.names, image).await?;
            *installed = true;
        }
        Ok(found)
    }

    async fn prepare_image(&self, docker: &Docker, image: &str) -> Result<Image> {
        if let Some(problem) = self.daemon.lacks(&self.config).await? {
            return Err(unavailable(format!("{}: {}", problem.what, problem.fix)));
        }
        // In a task: who waits may give up, and a pull is not to begin anew for that.
        let (daemon, name) = (docker.clone(), image.to_owned());
        let config = Arc::clone(&self.config);
        let ensure = async move { image::ensure(&daemon, &name, &config).await };
        tokio::spawn(ensure).await.map_err(Error::internal)?
    }

    /// After a sandbox did not start: somebody may have removed its image or the guest.
    /// What is there stays as it is, for other sandboxes are started with it.
    async fn look_again(&self, docker: &Docker, image: &str) -> Result<()> {
        self.images().remove(image);
        let mut installed = self.installed.lock().await;
        if *installed {
            *installed = self.guest.is_installed(docker).await?;
        }
        Ok(())
    }

    fn check_spec(&self, spec: &SandboxSpec) -> Result<()> {
        if let Some(missing) = spec.required().difference(&self.capabilities()).next() {
            return Err(Error::new(
                ErrorCode::Unsupported,
                format!("Docker sandboxes do not have the capability {missing:?}"),
            ));
        }
        let image = container::image(&self.config, spec);
        if image != self.config.image && !self.config.images.iter().any(|it| it == image) {
            return Err(Error::new(
                ErrorCode::Unsupported,
                "the image is not among those that the operator allows",
            ));
        }
        Ok(())
    }

    async fn start(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<DockerPlace> {
        if let Err(refused) = self.check_spec(spec) {
            // What the operator has taken back does not run on.
            self.end(id).await?;
            return Err(refused);
        }
        let docker = self.client().await?;
        self.wait_for_earlier(id).await?;
        let place = match self.take_over(docker, id, spec).await {
            Some(place) => place,
            None => match self.make(docker, id, spec).await {
                Ok(place) => place,
                Err(first) => {
                    self.given().remove(id);
                    warn!(
                        "a sandbox did not start, trying once more: {}",
                        chain(&first)
                    );
                    let image = container::image(&self.config, spec);
                    self.look_again(docker, image).await?;
                    self.make(docker, id, spec).await?
                }
            },
        };
        self.earlier.is(id, place.ended());
        Ok(place)
    }

    async fn make(
        &self,
        docker: &Docker,
        id: &SandboxId,
        spec: &SandboxSpec,
    ) -> Result<DockerPlace> {
        let image_name = container::image(&self.config, spec);
        let image = self.prepare(docker, image_name).await?;
        let quota = self.has_quota().then(|| spec.limits.disk.bytes());
        let has_quota = workspace::make(docker, &self.names, id, quota).await?;
        if !image.owns_workspace && !self.given().contains(id) {
            workspace::give_to_user(docker, &self.names, image_name, id).await?;
            self.given().insert(id.clone());
        }
        let name = self.names.of(id);
        let shape = Shape {
            config: &self.config,
            spec,
            workspace: &name,
            guest_volume: self.guest.volume(),
            has_quota: has_quota && !image.has_volumes,
            owns_workspace: image.owns_workspace,
            processors: self.daemon.processors().await?,
        };
        let container = self.create_container(docker, id, &shape).await?;
        match self.start_container(docker, &container, spec).await {
            Ok(guest) => Ok(self.place(guest, docker, container, spec, shape.processors)),
            Err(error) => {
                place::remove(docker, &container).await;
                Err(error)
            }
        }
    }

    fn place(
        &self,
        guest: GuestClient,
        docker: &Docker,
        container: String,
        spec: &SandboxSpec,
        processors: i64,
    ) -> DockerPlace {
        let death = self.daemon.events.of(&container);
        DockerPlace::new(
            guest,
            docker.clone(),
            container,
            Arc::clone(&self.config),
            spec,
            processors,
            death,
        )
    }

    async fn create_container(
        &self,
        docker: &Docker,
        id: &SandboxId,
        shape: &Shape<'_>,
    ) -> Result<String> {
        let name = self.names.of(id);
        let mut labels = self.names.labels(id);
        labels.insert(GUEST.into(), self.guest.version().into());
        let body = shape.body(labels);
        let create = || {
            let options = CreateContainerOptions {
                name: Some(name.clone()),
                ..Default::default()
            };
            docker.create_container(Some(options), body.clone())
        };
        let made = match create().await {
            // Left by a service that was killed.
            Err(error) if is_conflict(&error) => {
                place::remove(docker, &name).await;
                create().await
            }
            made => made,
        };
        made.map(|made| made.id)
            .map_err(|error| failed("make the container", error))
    }

    async fn start_container(
        &self,
        docker: &Docker,
        container: &str,
        spec: &SandboxSpec,
    ) -> Result<GuestClient> {
        // Before the start, so that nothing it says is lost.
        let (connection, complaint) = attach(docker, container).await?;
        docker
            .start_container(container, None::<StartContainerOptions>)
            .await
            .map_err(|error| failed("start the container", error))?;
        let limit = self.config.start_timeout;
        match timeout(limit, greet(connection, spec)).await {
            Ok(Ok(guest)) => Ok(guest),
            Ok(Err(error)) => Err(not_started(&complaint).with_source(error)),
            Err(late) => Err(not_started(&complaint).with_source(late)),
        }
    }

    /// The container of a service that was killed, if it can go on with this one.
    async fn take_over(
        &self,
        docker: &Docker,
        id: &SandboxId,
        spec: &SandboxSpec,
    ) -> Option<DockerPlace> {
        let survivor = self.survivors.take(id)?;
        let container = survivor.container.clone();
        let spoken = timeout(TAKEOVER_LIMIT, self.speak_to(docker, survivor, spec))
            .await
            .unwrap_or_else(|_| Err(unavailable("it does not answer")));
        let (guest, processors) = match spoken {
            Ok(spoken) => spoken,
            Err(error) => {
                info!(sandbox.id = %id, "a sandbox cannot be taken over: {}", chain(&error));
                place::remove(docker, &container).await;
                return None;
            }
        };
        info!(sandbox.id = %id, "took over a sandbox of an earlier service");
        Some(self.place(guest, docker, container, spec, processors))
    }

    async fn speak_to(
        &self,
        docker: &Docker,
        survivor: Survivor,
        spec: &SandboxSpec,
    ) -> Result<(GuestClient, i64)> {
        if survivor.shape != container::fixed(&self.config, spec) {
            return Err(unavailable("it is not what its session wants"));
        }
        let processors = self.daemon.processors().await?;
        place::limit(docker, &survivor.container, spec, processors).await?;
        let (mut connection, _) = attach(docker, &survivor.container).await?;
        let options = KillContainerOptions {
            signal: TAKEOVER_SIGNAL.to_string(),
        };
        docker
            .kill_container(&survivor.container, Some(options))
            .await
            .map_err(|error| failed("send a signal to a container", error))?;
        take_over(&mut connection).await.map_err(Error::internal)?;
        Ok((greet(connection, spec).await?, processors))
    }

    /// Waits until an earlier container with this id is gone.
    async fn wait_for_earlier(&self, id: &SandboxId) -> Result<()> {
        match self.earlier.is_gone(id).await {
            true => Ok(()),
            false => Err(unavailable(
                "the session's earlier container has not ended yet",
            )),
        }
    }
}

async fn attach(docker: &Docker, container: &str) -> Result<(Connection, Complaint)> {
    let options = AttachContainerOptions {
        stream: true,
        stdin: true,
        stdout: true,
        stderr: true,
        ..Default::default()
    };
    docker
        .attach_container(container, Some(options))
        .await
        .map(connection)
        .map_err(|error| failed("attach to the container", error))
}

async fn greet(connection: Connection, spec: &SandboxSpec) -> Result<GuestClient> {
    let guest = GuestClient::connect_afar(connection).await?;
    guest.health().await?;
    let config = GuestConfig {
        env: spec.env.clone(),
    };
    guest.init(&config).await?;
    Ok(guest)
}

fn not_started(complaint: &Complaint) -> Error {
    let said = complaint.text();
    if !said.is_empty() {
        warn!("a container did not start: {said}");
    }
    unavailable("the sandbox did not start")
}

#[async_trait]
impl Backend for DockerBackend {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::from([
            Capability::Exec,
            Capability::Files,
            Capability::PersistentWorkspace,
            Capability::Limits,
            Capability::Init,
            Capability::Freeze,
            Capability::Images,
        ]);
        if self.config.python_preload.is_some() {
            capabilities.insert(Capability::WarmPython);
        }
        if self.config.network.is_some() {
            capabilities.insert(Capability::Network);
        }
        if self.config.gpu.is_some() {
            capabilities.insert(Capability::Gpu);
        }
        capabilities
    }

    fn enforcement(&self) -> Enforcement {
        Enforcement::from([
            ("cpus", "docker"),
            (
                "disk",
                match self.has_quota() {
                    true => "volume quota",
                    false => "rlimit and watch",
                },
            ),
            ("memory", "docker"),
            ("pids", "docker"),
            ("tmp", "tmpfs"),
        ])
    }

    async fn check(&self) -> Readiness {
        let mut problems: Vec<Problem> =
            self.daemon.check(&self.config).await.into_iter().collect();
        if problems.is_empty()
            && self.config.pull == PullPolicy::Never
            && let Ok(docker) = self.daemon.client().await
            && !matches!(image::look(docker, &self.config.image).await, Ok(Some(_)))
        {
            problems.push(Problem::new(
                format!(
                    "the image `{}` is not on the Docker daemon",
                    self.config.image
                ),
                "load or build it there, or set `docker_pull` to `missing`",
            ));
        }
        Readiness { problems }
    }

    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Place>> {
        Ok(Arc::new(self.start(id, spec).await?))
    }

    async fn list(&self) -> Result<Vec<Found>> {
        let docker = self.client().await?;
        let running = self.survivors.ids();
        let ids = workspace::list(docker, &self.names).await?;
        Ok(ids
            .into_iter()
            .map(|id| Found {
                running: running.contains(&id),
                id,
            })
            .collect())
    }

    async fn end(&self, id: &SandboxId) -> Result<()> {
        let docker = self.client().await?;
        if let Some(survivor) = self.survivors.take(id) {
            place::remove(docker, &survivor.container).await;
        }
        Ok(())
    }

    async fn close(&self) {
        // It is filled again at the next start.
        if let Ok(docker) = self.daemon.client().await
            && let Err(error) = self.guest.uninstall(docker).await
        {
            warn!("the guest's volume is left: {}", chain(&error));
        }
    }

    async fn remove(&self, id: &SandboxId) -> Result<()> {
        self.wait_for_earlier(id).await?;
        let docker = self.client().await?;
        self.survivors.take(id);
        place::remove(docker, &self.names.of(id)).await;
        self.given().remove(id);
        workspace::remove(docker, &self.names, id).await
    }
}
