//! POST /sessions/{tenant_id}/{session_id}: a session as it is asked for.

use std::{collections::BTreeMap, time::Duration};

use axum::extract::State;
use http::StatusCode;
use sandbox_core::{
    ByteSize, Capability, Error, ErrorCode, Limits, NetworkPolicy, SandboxSpec, SessionOptions,
};
use sandbox_session::{CreatedBy, NewSession};
use sandbox_store::AuditAction;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{
    ToSchema,
    openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, Type},
};

use super::{
    SessionResponse,
    asked::{Asked, AskedFile},
    no_session,
};
use crate::{
    AppState,
    audit::Deed,
    caller::Caller,
    extract::{Json, SessionPath},
    input::{self, InputFile},
    problem::{ApiError, ApiResult, Problem},
    state::SessionBounds,
};

const MAX_LABELS: usize = 64;
const MAX_LABEL_NAME: usize = 64;
const MAX_LABEL_VALUE: usize = 256;
const MAX_IMAGE_BYTES: usize = 256;
const MIN_MEMORY: ByteSize = ByteSize::mib(16);
const MIN_CPUS: f64 = 0.01;
/// The guest has a few threads of its own, and a sandbox that cannot start looks like
/// trouble of the service's.
const MIN_PIDS: u32 = 16;

/// What a session shall be; whatever is absent is as for a session that its first call makes.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SessionBody {
    /// The name of a backend of this service.
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    /// What the backend must be able to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["exec"]))]
    capabilities: Vec<Capability>,
    /// Of every run and process in it; a request's own `env` is added and wins.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<LimitsBody>,
    /// Written before anybody else reaches the session, at most 256: all of them, or there is no
    /// session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 256)]
    files: Vec<InputFile>,
    /// Ends the session when nobody uses it for so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    idle_timeout_seconds: Option<u64>,
    /// Ends it this long after it was made, used or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    ttl_seconds: Option<u64>,
    /// To find it by, at most 64: names of 1 to 64 letters, digits, `.`, `_`, `-` and `/`, values
    /// of at most 256 characters.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    /// What its programs see as their system, of those that the operator allows; with a
    /// backend that has `images`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    image: Option<String>,
    /// Refused with `unsupported`, like `mounts`: no backend here offers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    repo: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    mounts: Option<Value>,
}

/// `disabled`, `allow_all`, or the names of hosts.
#[derive(Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Network {
    Word(NetworkWord),
    Names(NetworkNames),
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NetworkWord {
    Disabled,
    AllowAll,
}

#[derive(Debug, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkNames {
    allow: Vec<String>,
}

/// Each at most what the operator lets a session have.
#[derive(Debug, Default, Deserialize, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsBody {
    /// Of all processes together: bytes, or a size such as `256m`; 16 MiB or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = size_schema)]
    memory: Option<ByteSize>,
    /// Processors; 0.5 is half of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.01)]
    cpus: Option<f64>,
    /// Processes and threads, those of the sandbox itself too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 16)]
    pids: Option<u32>,
    /// Of the workspace: bytes, or a size such as `256m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = size_schema)]
    disk: Option<ByteSize>,
    /// Of a run that names no `timeout_seconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_seconds: Option<f64>,
}

/// Create a session
///
/// Sessions are made by their first call too; this one says how. The same request again is
/// answered 200 and changes nothing; where the session was made in another way the answer is 409.
#[utoipa::path(
    post, path = "/sessions/{tenant_id}/{session_id}", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path)),
    request_body = SessionBody,
    responses(
        (status = 201, description = "Created, and running", body = SessionResponse),
        (status = 200, description = "It was there, made by the same request", body = SessionResponse),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn create_session(
    caller: Caller,
    State(state): State<AppState>,
    path: SessionPath,
    Json(body): Json<SessionBody>,
) -> ApiResult<(StatusCode, Json<SessionResponse>)> {
    let key = caller.managed(path.tenant, path.session)?;
    let by = CreatedBy {
        subject: caller.subject().to_owned(),
        request_id: caller.request_id().map(str::to_owned),
    };
    let new = body.checked(&state, by)?;
    let deed = Deed {
        caller: &caller,
        key: &key,
        action: AuditAction::SessionCreated,
        path: None,
        bytes: None,
    };
    let call = state.sessions.create(&key, &new);
    let fresh = state.audited_if_refused(deed, call).await?;
    let info = state.sessions.get(&key).ok_or_else(no_session)?;
    let status = match fresh {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok((status, Json(info.into())))
}

impl SessionBody {
    fn checked(self, state: &AppState, by: CreatedBy) -> ApiResult<NewSession> {
        let bounds = &state.settings.sessions;
        self.refuse_what_is_not_offered(state)?;
        input::environment(&self.env)?;
        labels(&self.labels)?;
        let files = input::files(self.files)?;
        let asked = self.limits.unwrap_or_default();
        let request_sha256 = Asked {
            image: self.image.as_deref(),
            env: &self.env,
            network: self.network.as_ref(),
            limits: &asked,
            files: files.iter().map(AskedFile::from).collect(),
            idle_timeout_seconds: self.idle_timeout_seconds,
            ttl_seconds: self.ttl_seconds,
            labels: &self.labels,
        }
        .sha256()?;
        let run_timeout = asked
            .timeout_seconds
            .map(|_| input::timeout(asked.timeout_seconds, &state.settings))
            .transpose()
            .map_err(|error| named("limits.", error))?;
        let asked_network = self.network.as_ref();
        let network = network(asked_network, bounds.spec.network, state.default_backend())?;
        let mut env = bounds.spec.env.clone();
        env.extend(self.env);
        Ok(NewSession {
            spec: SandboxSpec {
                image: self.image,
                env,
                network,
                limits: limits(&asked, bounds)?,
            },
            options: SessionOptions {
                labels: self.labels,
                run_timeout,
                request_sha256,
                ..SessionOptions::default()
            },
            idle_timeout: seconds(
                "idle_timeout_seconds",
                self.idle_timeout_seconds,
                Some(bounds.max_idle_timeout),
            )?,
            ttl: seconds("ttl_seconds", self.ttl_seconds, bounds.max_ttl)?,
            files,
            by,
        })
    }

    fn refuse_what_is_not_offered(&self, state: &AppState) -> ApiResult<()> {
        let backend = state.default_backend();
        if let Some(named) = &self.backend
            && named != backend
        {
            return Err(unsupported(format!(
                "sessions are made by the backend `{backend}` here"
            )));
        }
        for (field, value) in [("repo", &self.repo), ("mounts", &self.mounts)] {
            if value.is_some() {
                return Err(unsupported(format!(
                    "the backend `{backend}` does not offer `{field}`"
                )));
            }
        }
        let offered = state.capabilities();
        if let Some(image) = &self.image {
            if !offered.contains(&Capability::Images) {
                return Err(unsupported(format!(
                    "the backend `{backend}` does not offer `image`"
                )));
            }
            if !(1..=MAX_IMAGE_BYTES).contains(&image.len()) {
                return Err(ApiError::invalid(format!(
                    "`image` has 1 to {MAX_IMAGE_BYTES} characters"
                )));
            }
        }
        match self.capabilities.iter().find(|it| !offered.contains(it)) {
            Some(lacking) => {
                let lacking = serde_json::to_value(lacking).map_err(Error::internal)?;
                Err(unsupported(format!(
                    "the backend `{backend}` does not have the capability {lacking}"
                )))
            }
            None => Ok(()),
        }
    }
}

/// What is asked for by name is given, whatever the operator's default.
fn network(
    asked: Option<&Network>,
    usual: NetworkPolicy,
    backend: &str,
) -> ApiResult<NetworkPolicy> {
    match asked {
        None => Ok(usual),
        Some(Network::Word(NetworkWord::Disabled)) => Ok(NetworkPolicy::Disabled),
        Some(Network::Word(NetworkWord::AllowAll)) => Ok(NetworkPolicy::AllowAll),
        Some(Network::Names(_)) => Err(unsupported(format!(
            "the backend `{backend}` does not offer a network by names of hosts"
        ))),
    }
}

fn limits(asked: &LimitsBody, bounds: &SessionBounds) -> ApiResult<Limits> {
    let (usual, max) = (&bounds.spec.limits, &bounds.max_limits);
    let within = |field: &str, good: bool, least: String, most: String| {
        good.then_some(()).ok_or_else(|| {
            ApiError::invalid(format!(
                "`limits.{field}` is not between {least} and {most}"
            ))
        })
    };
    let memory = asked.memory.unwrap_or(usual.memory);
    if asked.memory.is_some() {
        let good = (MIN_MEMORY..=max.memory).contains(&memory);
        within(
            "memory",
            good,
            MIN_MEMORY.to_string(),
            max.memory.to_string(),
        )?;
    }
    let cpus = asked.cpus.unwrap_or(usual.cpus);
    if asked.cpus.is_some() {
        let good = (MIN_CPUS..=max.cpus).contains(&cpus);
        within("cpus", good, MIN_CPUS.to_string(), max.cpus.to_string())?;
    }
    let pids = asked.pids.unwrap_or(usual.pids);
    if asked.pids.is_some() {
        let least = MIN_PIDS.min(max.pids);
        let good = (least..=max.pids).contains(&pids);
        within("pids", good, least.to_string(), max.pids.to_string())?;
    }
    let disk = asked.disk.unwrap_or(usual.disk);
    if asked.disk.is_some() {
        let good = (ByteSize(1)..=max.disk).contains(&disk);
        within("disk", good, "1".into(), max.disk.to_string())?;
    }
    Ok(Limits {
        memory,
        cpus,
        pids,
        disk,
        tmp: usual.tmp,
    })
}

pub(super) fn seconds(
    field: &str,
    asked: Option<u64>,
    max: Option<Duration>,
) -> ApiResult<Option<Duration>> {
    let Some(asked) = asked.map(Duration::from_secs) else {
        return Ok(None);
    };
    // Beyond a thousand years times no longer fit their columns.
    let max = max.unwrap_or(Duration::from_secs(1000 * 365 * 24 * 3600));
    if asked.is_zero() || asked > max {
        return Err(ApiError::invalid(format!(
            "`{field}` is not between 1 and {}",
            max.as_secs()
        )));
    }
    Ok(Some(asked))
}

fn labels(labels: &BTreeMap<String, String>) -> ApiResult<()> {
    let good_name = |name: &str| {
        (1..=MAX_LABEL_NAME).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
    };
    let good_value = |value: &str| {
        value.chars().count() <= MAX_LABEL_VALUE && !value.chars().any(char::is_control)
    };
    if labels.len() > MAX_LABELS {
        return Err(ApiError::invalid(format!(
            "`labels` has more than {MAX_LABELS} entries"
        )));
    }
    if !labels.keys().all(|name| good_name(name)) {
        return Err(ApiError::invalid(format!(
            "`labels` has a name that is not 1 to {MAX_LABEL_NAME} of [A-Za-z0-9._/-]"
        )));
    }
    if !labels.values().all(|value| good_value(value)) {
        return Err(ApiError::invalid(format!(
            "`labels` has a value of more than {MAX_LABEL_VALUE} characters, or with a control \
             character"
        )));
    }
    Ok(())
}

/// The same refusal, with where the field is.
fn named(parent: &str, error: ApiError) -> ApiError {
    let error = Error::from(error);
    ApiError::new(
        error.code(),
        error.detail().replacen('`', &format!("`{parent}"), 1),
    )
}

fn unsupported(detail: String) -> ApiError {
    ApiError::new(ErrorCode::Unsupported, detail)
}

fn size_schema() -> Schema {
    let bytes = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1));
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some("^[0-9]+(\\.[0-9]+)?[kKmMgG]?$"))
        .examples(["256m"]);
    AnyOfBuilder::new().item(bytes).item(text).build().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_asked_for_is_not_the_default() {
        use NetworkPolicy::{AllowAll, Disabled};
        let disabled = Network::Word(NetworkWord::Disabled);
        let allow_all = Network::Word(NetworkWord::AllowAll);
        for usual in [Disabled, AllowAll] {
            let of = |asked| network(asked, usual, "local").unwrap();
            assert_eq!(of(None), usual);
            assert_eq!(of(Some(&disabled)), Disabled);
            assert_eq!(of(Some(&allow_all)), AllowAll);
        }
        // An empty list allows nothing: it must not come to mean everything.
        let names = Network::Names(NetworkNames { allow: Vec::new() });
        assert!(network(Some(&names), AllowAll, "local").is_err());
    }

    #[test]
    fn labels_are_bounded() {
        let one = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert!(labels(&one("example.org/team", "rot & blau ä")).is_ok());
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a=b", "x"),
            ("a", "b\n"),
            ("ä", ""),
        ] {
            assert!(labels(&one(name, value)).is_err(), "{name} {value}");
        }
        assert!(labels(&one(&"x".repeat(65), "")).is_err());
        assert!(labels(&one("a", &"x".repeat(257))).is_err());
        let many = (0..65).map(|n| (format!("n{n}"), String::new())).collect();
        assert!(labels(&many).is_err());
    }
}
