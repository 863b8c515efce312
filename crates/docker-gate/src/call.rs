//! The calls that there are. All that is not here is refused.

use http::Method;

use crate::{
    filters,
    image::ImageName,
    names,
    policy::Policy,
    query::Query,
    refusal::{Refusal, Result, quoted},
    target::Target,
};

const CONTAINER_FILTERS: &[&str] = &["health", "id", "name", "status"];
const VOLUME_FILTERS: &[&str] = &["dangling", "name"];
const EVENT_FILTERS: &[&str] = &["container", "event", "type"];
/// Where the volumes of sandboxes are mounted.
pub const FOLDERS: [&str; 2] = ["/.sandbox", "/workspace"];

/// One call, its query already written as it is sent on.
#[derive(Debug, PartialEq, Eq)]
pub enum Call {
    /// Nothing more is to be looked at.
    Plain {
        path: String,
        patience: Patience,
    },
    CreateContainer {
        query: String,
    },
    Container {
        reference: String,
        act: Act,
        query: String,
    },
    CreateVolume,
    Volume {
        name: String,
        query: String,
    },
    InspectImage {
        image: ImageName,
    },
    PullImage {
        query: String,
    },
}

/// How long the daemon may take until its answer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    Short,
    /// The answer is an event that may be far.
    Endless,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Start,
    Attach,
    Inspect,
    Kill,
    Update,
    Remove,
    Wait,
    /// An archive into the folder that is named.
    Put(Folder),
}

/// Where an archive is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    Root,
    Sandbox,
    Workspace,
}

impl Folder {
    pub fn path(self) -> &'static str {
        match self {
            Self::Root => "/",
            Self::Sandbox => FOLDERS[0],
            Self::Workspace => FOLDERS[1],
        }
    }
}

impl Act {
    /// The rest of the path behind the container.
    pub fn path(self) -> &'static str {
        match self {
            Self::Start => "/start",
            Self::Attach => "/attach",
            Self::Inspect => "/json",
            Self::Kill => "/kill",
            Self::Update => "/update",
            Self::Remove => "",
            Self::Wait => "/wait",
            Self::Put(_) => "/archive",
        }
    }
}

impl Call {
    pub fn of(method: &Method, target: &Target<'_>, query: Query, policy: &Policy) -> Result<Self> {
        match (method.as_str(), target.segments.as_slice()) {
            ("GET" | "HEAD", ["_ping"]) => plain("/_ping", query),
            ("GET", ["version"]) => plain("/version", query),
            ("GET", ["info"]) => plain("/info", query),
            ("GET", ["events"]) => events(query),
            ("GET", ["containers", "json"]) => list_containers(query),
            ("POST", ["containers", "create"]) => create_container(query),
            ("POST", ["containers", id, act]) => act_on(id, act, query),
            ("GET", ["containers", id, "json"]) => container(id, Act::Inspect, query, |query| {
                query.flag("size").map(drop)
            }),
            ("DELETE", ["containers", id]) => container(id, Act::Remove, query, |query| {
                query.flag("v")?;
                query.flag("force").map(drop)
            }),
            ("PUT", ["containers", id, "archive"]) => put(id, query),
            ("GET", ["volumes"]) => list_volumes(query),
            ("POST", ["volumes", "create"]) => query.close().map(|_| Self::CreateVolume),
            ("GET", ["volumes", name]) => volume(name, query),
            ("DELETE", ["volumes", name]) => {
                let mut query = query;
                query.flag("force")?;
                volume(name, query)
            }
            ("POST", ["images", "create"]) => pull(query, policy),
            ("GET", ["images", name @ .., "json"]) if !name.is_empty() => {
                query.close()?;
                let image = ImageName::parse(&name.join("/"))?;
                policy.check_image(&image)?;
                Ok(Self::InspectImage { image })
            }
            _ => Err(Refusal::forbidden("this call is not permitted")),
        }
    }
}

fn plain(path: &str, query: Query) -> Result<Call> {
    Ok(Call::Plain {
        path: format!("{path}{}", query.close()?),
        patience: Patience::Short,
    })
}

fn events(mut query: Query) -> Result<Call> {
    let rule = "must be a time";
    let is_time = |text: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b".:+-".contains(&b);
        text.len() <= 64 && text.bytes().all(allowed)
    };
    query.text("since", rule, is_time)?;
    query.text("until", rule, is_time)?;
    // What happens to others is nothing that the service needs to know.
    filters::keep(&mut query, EVENT_FILTERS)?;
    Ok(Call::Plain {
        path: format!("/events{}", query.close()?),
        patience: Patience::Endless,
    })
}

fn list_containers(mut query: Query) -> Result<Call> {
    query.flag("all")?;
    query.flag("size")?;
    query.text("limit", "must be a number", is_number)?;
    filters::keep(&mut query, CONTAINER_FILTERS)?;
    plain("/containers/json", query)
}

fn list_volumes(mut query: Query) -> Result<Call> {
    filters::keep(&mut query, VOLUME_FILTERS)?;
    plain("/volumes", query)
}

fn create_container(mut query: Query) -> Result<Call> {
    let Some(name) = query.take("name") else {
        return Err(Refusal::forbidden("the parameter `name` must be given"));
    };
    names::check("container", &name)?;
    query.keep("name", &name);
    Ok(Call::CreateContainer {
        query: query.close()?,
    })
}

fn act_on(id: &str, act: &str, query: Query) -> Result<Call> {
    match act {
        "start" => container(id, Act::Start, query, |_| Ok(())),
        "attach" => container(id, Act::Attach, query, |query| {
            for name in ["stream", "stdin", "stdout", "stderr", "logs"] {
                query.flag(name)?;
            }
            Ok(())
        }),
        "kill" => container(id, Act::Kill, query, |query| {
            query.text("signal", "is not a signal", |text| {
                text.len() <= 16 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+')
            })
        }),
        "update" => container(id, Act::Update, query, |_| Ok(())),
        "wait" => container(id, Act::Wait, query, |query| {
            query.text("condition", "is not one that there is", |text| {
                ["not-running", "next-exit", "removed"].contains(&text)
            })
        }),
        _ => Err(Refusal::forbidden("this call is not permitted")),
    }
}

fn container(
    reference: &str,
    act: Act,
    mut query: Query,
    read: impl FnOnce(&mut Query) -> Result<()>,
) -> Result<Call> {
    if !names::is_id(reference) {
        names::check("container", reference)?;
    }
    read(&mut query)?;
    Ok(Call::Container {
        reference: reference.to_owned(),
        act,
        query: query.close()?,
    })
}

fn put(id: &str, mut query: Query) -> Result<Call> {
    let folder = match query.take("path").as_deref() {
        Some("/") => Folder::Root,
        Some("/.sandbox" | "/.sandbox/") => Folder::Sandbox,
        Some("/workspace" | "/workspace/") => Folder::Workspace,
        path => {
            return Err(Refusal::forbidden(format!(
                "nothing may be written to {}: archives go to `/.sandbox`, `/workspace` or `/`",
                quoted(path.unwrap_or_default())
            )));
        }
    };
    container(id, Act::Put(folder), query, |query| {
        query.keep("path", folder.path());
        query.flag("noOverwriteDirNonDir").map(drop)
    })
}

fn volume(name: &str, query: Query) -> Result<Call> {
    names::check("volume", name)?;
    Ok(Call::Volume {
        name: name.to_owned(),
        query: query.close()?,
    })
}

fn pull(mut query: Query, policy: &Policy) -> Result<Call> {
    if !policy.allow_pull {
        return Err(Refusal::forbidden(
            "images are not pulled: that is for --allow-pull to permit",
        ));
    }
    let Some(from) = query.take("fromImage") else {
        return Err(Refusal::forbidden(
            "an image is pulled by the parameter `fromImage`, and made in no other way",
        ));
    };
    let name = match query.take("tag") {
        None => from,
        Some(digest) if digest.contains(':') => format!("{from}@{digest}"),
        Some(tag) => format!("{from}:{tag}"),
    };
    let image = ImageName::parse(&name)?;
    policy.check_image(&image)?;
    let (repository, version) = image.to_pull()?;
    query.keep("fromImage", repository);
    query.keep("tag", version);
    query.text("platform", "is not a platform", |text| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/_-.".contains(&b);
        text.len() <= 64 && text.bytes().all(allowed)
    })?;
    Ok(Call::PullImage {
        query: query.close()?,
    })
}

fn is_number(text: &str) -> bool {
    text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(policy: &Policy, line: &str) -> Result<Call> {
        let (method, rest) = line.split_once(' ').unwrap();
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let target = Target::parse(path)?;
        Call::of(
            &method.parse().unwrap(),
            &target,
            Query::parse(query)?,
            policy,
        )
    }

    #[test]
    fn only_the_calls_that_sandboxes_need_are_there() {
        let id = "0f".repeat(32);
        let policy = Policy::default();
        for good in [
            "GET /_ping",
            "HEAD /v1.41/_ping",
            "GET /version",
            "GET /v1.41/info",
            "GET /events?since=1",
            "GET /containers/json?all=true&size=false",
            "POST /containers/create?name=sandboxd-a&platform=",
            "POST /containers/sandboxd-a/start",
            &format!("POST /v1.43/containers/{id}/attach?stream=1&stdin=1&logs=false"),
            "GET /containers/sandboxd-a/json?size=false",
            "POST /containers/sandboxd-a/kill?signal=SIGKILL",
            "POST /containers/sandboxd-a/update",
            "POST /containers/sandboxd-a/wait?condition=removed",
            "DELETE /containers/sandboxd-a?v=1&force=1&link=false",
            "PUT /containers/sandboxd-a/archive?path=/.sandbox",
            "GET /volumes",
            "POST /volumes/create",
            "GET /volumes/sandboxd-a",
            "DELETE /volumes/sandboxd-a?force=false",
            "GET /images/a/b:1/json",
        ] {
            if let Err(refusal) = call(&policy, good) {
                panic!("{good}: {refusal}");
            }
        }
        for bad in [
            "POST /containers/sandboxd-a/exec",
            "POST /exec/sandboxd-a/start",
            "POST /build",
            "POST /commit",
            "GET /plugins",
            "POST /plugins/pull",
            "GET /swarm",
            "POST /services/create",
            "GET /networks",
            "POST /networks/create",
            "POST /networks/bridge/connect",
            "GET /containers/sandboxd-a/archive?path=/etc",
            "HEAD /containers/sandboxd-a/archive?path=/etc",
            "GET /containers/sandboxd-a/export",
            "GET /containers/sandboxd-a/logs",
            "GET /containers/sandboxd-a/attach/ws",
            "POST /containers/sandboxd-a/rename?name=sandboxd-b",
            "POST /containers/sandboxd-a/copy",
            "POST /containers/sandboxd-a/checkpoints",
            "POST /containers/prune",
            "POST /volumes/prune",
            "POST /images/load",
            "GET /images/json",
            "DELETE /images/a",
            "POST /images/a/push",
            "GET /images/a/get",
            "POST /auth",
            "POST /session",
            "POST /grpc",
            "GET /secrets",
            "GET /system/df",
            "POST /_ping",
            "CONNECT /_ping",
            "get /_ping",
            "GET /containers/json/",
            "GET /Containers/json",
        ] {
            assert_eq!(call(&policy, bad).unwrap_err().status, 403, "{bad}");
        }
    }

    #[test]
    fn parameters_that_are_not_needed_are_refused() {
        let policy = Policy::default();
        for bad in [
            "POST /containers/create",
            "POST /containers/create?name=other",
            "POST /containers/create?name=/sandboxd-a",
            "POST /containers/create?name=sandboxd-a&platform=linux/arm64",
            "POST /containers/sandboxd-a/start?checkpoint=x&checkpoint-dir=/",
            "POST /containers/sandboxd-a/attach?detachKeys=a",
            "DELETE /containers/sandboxd-a?link=1",
            "POST /containers/sandboxd-a/kill?signal=../x",
            "PUT /containers/sandboxd-a/archive?path=/etc",
            "PUT /containers/sandboxd-a/archive?path=/workspace/../etc",
            "PUT /containers/sandboxd-a/archive",
            "PUT /containers/sandboxd-a/archive?path=/&copyUIDGID=1",
            "GET /containers/postgres/json",
            "GET /containers/0f0f0f0f0f0f/json",
            "GET /volumes/other",
        ] {
            assert_eq!(call(&policy, bad).unwrap_err().status, 403, "{bad}");
        }
    }

    #[test]
    fn images_are_pulled_only_where_that_is_permitted() {
        let line = "POST /images/create?fromImage=ghcr.io/us/worker&platform=";
        assert!(call(&Policy::default(), line).is_err());
        let mut policy = Policy::default().with_image("ghcr.io/us/*").unwrap();
        policy.allow_pull = true;
        let Call::PullImage { query } = call(&policy, line).unwrap() else {
            panic!("a pull");
        };
        assert_eq!(query, "?fromImage=ghcr.io%2Fus%2Fworker&tag=latest");
        for bad in [
            "POST /images/create?fromImage=ghcr.io/them/worker",
            "POST /images/create?fromSrc=http://x/y.tar",
            "POST /images/create?fromImage=ghcr.io/us/a&fromSrc=-",
            "POST /images/create?fromImage=ghcr.io/us/a&repo=b",
            "POST /images/create?fromImage=ghcr.io/us/a&changes=USER%20root",
            "POST /images/create?fromImage=ghcr.io/us/a:1&tag=2",
        ] {
            assert!(call(&policy, bad).is_err(), "{bad}");
        }
        assert!(call(&policy, "GET /images/ghcr.io/us/worker/json").is_ok());
        assert!(call(&policy, "GET /images/postgres/json").is_err());
    }
}
