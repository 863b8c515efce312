//! What a container is and may do.

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, ContainerUpdateBody, DeviceRequest, HealthConfig, HostConfig,
    HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountType, MountVolumeOptions,
    ResourcesUlimits,
};
use sandbox_core::{Limits, NetworkPolicy, SandboxSpec};

use crate::{
    config::DockerConfig,
    guest_volume,
    names::{SHAPE, short},
};

/// The user of every program, the guest included; it owns the workspace.
pub(crate) const USER: u32 = 65532;
pub(crate) const WORKSPACE: &str = "/workspace";
/// Another one whenever a container may do less than before: one of the earlier kind
/// is not taken over.
const SHAPE_VERSION: u32 = 1;
/// Of the descriptors that one program may have.
const OPEN_FILES: i64 = 4096;
/// Smallest size of a tmpfs: Docker takes none as no limit.
const MIN_TMPFS: u64 = 64 * 1024;
/// What of the host's kernel and board a program has no business with: the list
/// that the engine has itself, and the strings of the board.
const MASKED: [&str; 14] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/dmi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/kernel/debug",
];

/// One container that is wanted.
pub(crate) struct Shape<'a> {
    pub config: &'a DockerConfig,
    pub spec: &'a SandboxSpec,
    /// Of the volume.
    pub workspace: &'a str,
    pub guest_volume: &'a str,
    /// A new workspace is what the image has at its path; else it is empty, and
    /// belongs to whom it was given.
    pub owns_workspace: bool,
    /// All that programs can write has a size of its own: the guest need not watch it.
    pub has_quota: bool,
    /// Of the daemon's machine.
    pub processors: i64,
}

/// The image that a sandbox has.
pub(crate) fn image<'a>(config: &'a DockerConfig, spec: &'a SandboxSpec) -> &'a str {
    spec.image.as_deref().unwrap_or(&config.image)
}

fn network<'a>(config: &'a DockerConfig, spec: &SandboxSpec) -> Option<&'a str> {
    let gpu = config.gpu.as_ref().and_then(|gpu| gpu.network.as_deref());
    match spec.network {
        NetworkPolicy::Disabled => gpu,
        NetworkPolicy::AllowAll => config.network.as_deref().or(gpu),
    }
}

/// A hash of what cannot be changed in a container that lives.
pub(crate) fn fixed(config: &DockerConfig, spec: &SandboxSpec) -> String {
    let limits = &spec.limits;
    short(&format!(
        "{:?}",
        (
            image(config, spec),
            network(config, spec),
            &config.runtime,
            &config.gpu,
            &config.python_preload,
            limits.disk.bytes(),
            limits.tmp.bytes(),
            SHAPE_VERSION,
        )
    ))
}

/// The limits that can be changed in a container that lives.
pub(crate) fn update(spec: &SandboxSpec, processors: i64) -> ContainerUpdateBody {
    let limits = &spec.limits;
    let memory = size(limits.memory.bytes());
    ContainerUpdateBody {
        memory: Some(memory),
        memory_swap: Some(memory),
        nano_cpus: Some(nano_cpus(limits, processors)),
        pids_limit: Some(limits.pids.into()),
        ..Default::default()
    }
}

impl Shape<'_> {
    pub fn body(&self, mut labels: HashMap<String, String>) -> ContainerCreateBody {
        labels.insert(SHAPE.into(), fixed(self.config, self.spec));
        ContainerCreateBody {
            image: Some(image(self.config, self.spec).to_owned()),
            hostname: Some("sandbox".into()),
            user: Some(format!("{USER}:{USER}")),
            working_dir: Some(WORKSPACE.into()),
            env: Some(vec![format!("HOME={WORKSPACE}")]),
            entrypoint: Some(vec![guest_volume::PROGRAM.into()]),
            cmd: Some(self.arguments()),
            labels: Some(labels),
            open_stdin: Some(true),
            // It outlives a service that is killed: the next one takes it over.
            stdin_once: Some(false),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(false),
            // A daemon that ends need not wait for an init that ignores its signal.
            stop_timeout: Some(1),
            network_disabled: Some(network(self.config, self.spec).is_none()),
            // Whatever the image has: it would run as often as the image says.
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".into()]),
                ..Default::default()
            }),
            host_config: Some(self.host()),
            ..Default::default()
        }
    }

    /// Of the guest.
    fn arguments(&self) -> Vec<String> {
        let disk = self.spec.limits.disk.bytes().to_string();
        let alone = self.config.alone_limit.as_secs().to_string();
        let mut arguments: Vec<String> =
            ["serve", "--workspace", WORKSPACE, "--alone-seconds", &alone]
                .map(str::to_owned)
                .into();
        if !self.has_quota {
            arguments.extend(["--disk-bytes".into(), disk.clone()]);
        }
        arguments.extend(["--file-bytes".into(), disk]);
        if let Some(modules) = &self.config.python_preload {
            arguments.extend(["--python-preload".into(), modules.join(",")]);
        }
        arguments
    }

    fn host(&self) -> HostConfig {
        let limits = &self.spec.limits;
        let memory = size(limits.memory.bytes());
        HostConfig {
            mounts: Some(vec![
                volume(self.guest_volume, guest_volume::FOLDER, true, false),
                volume(self.workspace, WORKSPACE, false, self.owns_workspace),
            ]),
            memory: Some(memory),
            // The same: nothing is swapped.
            memory_swap: Some(memory),
            nano_cpus: Some(nano_cpus(limits, self.processors)),
            pids_limit: Some(limits.pids.into()),
            ulimits: Some(ulimits()),
            network_mode: Some(network(self.config, self.spec).unwrap_or("none").into()),
            ipc_mode: Some("private".into()),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            shm_size: Some(size(limits.tmp.bytes().max(MIN_TMPFS))),
            tmpfs: Some(tmpfs(limits)),
            readonly_rootfs: Some(true),
            cap_drop: Some(vec!["ALL".into()]),
            privileged: Some(false),
            // Docker's own seccomp profile is in force where none is named.
            security_opt: Some(vec!["no-new-privileges:true".into()]),
            masked_paths: Some(MASKED.map(str::to_owned).into()),
            // The guest is the init.
            init: Some(false),
            runtime: self.config.runtime.clone(),
            device_requests: self.config.gpu.is_some().then(|| {
                vec![DeviceRequest {
                    driver: Some("nvidia".into()),
                    count: Some(-1),
                    capabilities: Some(vec![vec!["gpu".into()]]),
                    ..Default::default()
                }]
            }),
            // The connection is no log, and would fill the daemon's disk.
            log_config: Some(HostConfigLogConfig {
                typ: Some("none".into()),
                config: None,
            }),
            ..Default::default()
        }
    }
}

fn volume(source: &str, target: &str, read_only: bool, as_in_image: bool) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(source.into()),
        target: Some(target.into()),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions {
            no_copy: Some(!as_in_image),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn tmpfs(limits: &Limits) -> HashMap<String, String> {
    let size = limits.tmp.bytes().max(MIN_TMPFS);
    ["/tmp", "/var/tmp"]
        .map(|path| {
            (
                path.to_owned(),
                format!("rw,exec,nosuid,nodev,size={size},mode=1777"),
            )
        })
        .into()
}

/// Lower than any daemon's own, which no container may exceed.
fn ulimits() -> Vec<ResourcesUlimits> {
    [("nofile", OPEN_FILES), ("core", 0)]
        .map(|(name, limit)| ResourcesUlimits {
            name: Some(name.into()),
            soft: Some(limit),
            hard: Some(limit),
        })
        .into()
}

/// All of the machine's at most: more is no less of a limit, and the daemon refuses it.
fn nano_cpus(limits: &Limits, processors: i64) -> i64 {
    ((limits.cpus * 1e9) as i64).min(processors.saturating_mul(1_000_000_000))
}

fn size(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Gpu;

    fn config() -> DockerConfig {
        DockerConfig {
            runtime: Some("runsc".into()),
            ..DockerConfig::new("owner", "worker", bytes::Bytes::new())
        }
    }

    fn body(config: &DockerConfig, spec: &SandboxSpec) -> ContainerCreateBody {
        let shape = Shape {
            config,
            spec,
            workspace: "work",
            guest_volume: "guest",
            owns_workspace: false,
            has_quota: false,
            processors: 2,
        };
        shape.body(HashMap::new())
    }

    #[test]
    fn a_container_may_do_nothing_that_it_need_not() {
        let body = body(&config(), &SandboxSpec::default());
        assert_eq!(body.user.unwrap(), "65532:65532");
        assert_eq!(body.network_disabled, Some(true));
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.unwrap(), "none");
        assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
        assert_eq!(host.cap_add, None);
        assert_eq!(host.security_opt.unwrap(), ["no-new-privileges:true"]);
        assert_eq!(host.readonly_rootfs, Some(true));
        assert_eq!(host.privileged, Some(false));
        assert_eq!(
            (
                host.binds,
                host.devices,
                host.pid_mode,
                host.device_requests
            ),
            (None, None, None, None)
        );
        assert_eq!(host.memory, host.memory_swap);
        assert_eq!(host.memory, Some(512 << 20));
        assert_eq!(host.nano_cpus, Some(1_000_000_000));
        assert_eq!(host.pids_limit, Some(256));
        assert_eq!(host.runtime.unwrap(), "runsc");
        let mounts: Vec<_> = host
            .mounts
            .unwrap()
            .into_iter()
            .map(|mount| {
                (
                    mount.typ.unwrap(),
                    mount.target.unwrap(),
                    mount.read_only.unwrap(),
                )
            })
            .collect();
        assert_eq!(
            mounts,
            [
                (MountType::VOLUME, "/.sandbox".to_owned(), true),
                (MountType::VOLUME, "/workspace".to_owned(), false)
            ]
        );
    }

    #[test]
    fn a_sandbox_may_use_no_more_processors_than_there_are() {
        let mut spec = SandboxSpec::default();
        spec.limits.cpus = 64.0;
        let of = |spec: &SandboxSpec| body(&config(), spec).host_config.unwrap().nano_cpus;
        assert_eq!(of(&spec), Some(2_000_000_000));
        assert_eq!(update(&spec, i64::MAX).nano_cpus, Some(64_000_000_000));
        spec.limits.cpus = 0.5;
        assert_eq!(of(&spec), Some(500_000_000));
    }

    #[test]
    fn a_gpu_brings_no_network_unless_the_operator_says_so() {
        let mut config = config();
        config.gpu = Some(Gpu { network: None });
        let host = |config: &DockerConfig| {
            let body = body(config, &SandboxSpec::default());
            body.host_config.unwrap()
        };
        let requests = host(&config).device_requests.unwrap();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].driver.as_deref(), Some("nvidia"));
        assert_eq!(requests[0].count, Some(-1));
        assert_eq!(requests[0].capabilities, Some(vec![vec!["gpu".to_owned()]]));
        assert_eq!(host(&config).network_mode.unwrap(), "none");
        config.gpu = Some(Gpu {
            network: Some("bridge".into()),
        });
        assert_eq!(host(&config).network_mode.unwrap(), "bridge");
    }

    #[test]
    fn what_can_be_changed_while_it_lives_is_not_part_of_the_shape() {
        let config = config();
        let usual = SandboxSpec::default();
        let mut other = usual.clone();
        other.limits.memory = sandbox_core::ByteSize::mib(64);
        other.limits.cpus = 0.5;
        other.limits.pids = 32;
        other.env.insert("A".into(), "b".into());
        assert_eq!(fixed(&config, &usual), fixed(&config, &other));
        other.limits.tmp = sandbox_core::ByteSize::mib(1);
        assert_ne!(fixed(&config, &usual), fixed(&config, &other));
        let other_image = SandboxSpec {
            image: Some("other".into()),
            ..usual.clone()
        };
        assert_ne!(fixed(&config, &usual), fixed(&config, &other_image));
    }
}
