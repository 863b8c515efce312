//! GET /artifacts and /artifacts/{id}: what runs have made.

use axum::{extract::State, response::Response};
use http::{HeaderMap, HeaderValue};
use sandbox_core::{Error, ErrorCode, SessionId, TenantId};
use sandbox_store::ArtifactRecord;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    AppState,
    caller::Caller,
    extract::{ArtifactPath, Json, Query},
    files::send::{Described, send},
    problem::{ApiResult, Problem},
    run::ArtifactResponse,
    time::rfc3339,
};

const MAX_LISTED: usize = 1000;

/// Whose artifacts to list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// The token's tenant when it is absent.
    #[param(value_type = Option<String>)]
    tenant_id: Option<TenantId>,
    #[param(value_type = String)]
    session_id: SessionId,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ArtifactsResponse {
    /// Newest first, at most 1000.
    artifacts: Vec<ListedArtifact>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedArtifact {
    #[serde(flatten)]
    artifact: ArtifactResponse,
    /// The run that made it.
    execution_id: String,
    created: String,
}

/// List a session's artifacts
#[utoipa::path(
    get, path = "/artifacts", tag = "artifacts", params(ListQuery),
    responses((status = 200, description = "The artifacts", body = ArtifactsResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn list_artifacts(
    caller: Caller,
    State(state): State<AppState>,
    Query(query): Query<ListQuery>,
) -> ApiResult<Json<ArtifactsResponse>> {
    let key = caller.session(query.tenant_id, query.session_id)?;
    let found = state.artifacts.of_session(&key, MAX_LISTED).await?;
    Ok(Json(ArtifactsResponse {
        artifacts: found
            .iter()
            .map(|record| ListedArtifact {
                artifact: record.into(),
                execution_id: record.execution.to_string(),
                created: rfc3339(record.created_at),
            })
            .collect(),
    }))
}

/// Fetch an artifact
///
/// Its bytes as they were when its run ended. One `Range` and `If-None-Match` are honoured.
#[utoipa::path(
    get, path = "/artifacts/{artifact_id}", tag = "artifacts",
    params(("artifact_id" = String, Path)),
    responses(
        (status = 200, description = "The artifact", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, description = "The part that `Range` names", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "The client has this version"),
        (status = 416, response = Problem),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn get_artifact(
    caller: Caller,
    State(state): State<AppState>,
    ArtifactPath(id): ArtifactPath,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let record = state
        .artifacts
        .find(&id)
        .await?
        .filter(|record| caller.sees(&record.session.tenant))
        .ok_or_else(|| Error::new(ErrorCode::NotFound, "there is no such artifact"))?;
    let lease = state.sessions.lease(&record.session).await?;
    let described = Described {
        content_type: Some(record.mime_type.clone()),
        disposition: Some(disposition(&record)),
        // What a run leaves in its session is that session's to change, this not: the
        // copy is served as long as it has the size that it had.
        size: Some(record.size_bytes),
        etag: Some(format!("\"{}\"", record.sha256)),
    };
    send(lease, &record.stored_path, &headers, described)
        .await
        .map_err(|error| match error.code() {
            ErrorCode::NotFound
            | ErrorCode::NotARegularFile
            | ErrorCode::IsADirectory
            | ErrorCode::NotADirectory
            | ErrorCode::InvalidPath => Error::new(
                ErrorCode::ArtifactGone,
                "the artifact's copy was removed or changed inside the sandbox",
            )
            .into(),
            _ => error,
        })
}

/// Images are shown by browsers, everything else is saved; the name is not
/// trusted, for a program chose it (RFC 6266, RFC 8187).
fn disposition(record: &ArtifactRecord) -> HeaderValue {
    let kind = match record.mime_type.as_str() {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" => "inline",
        _ => "attachment",
    };
    let mut ascii = String::new();
    let mut exact = String::new();
    for c in record.name.chars().take(200) {
        let plain = c.is_ascii_alphanumeric() || "._-".contains(c);
        ascii.push(if plain { c } else { '_' });
        if plain {
            exact.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                exact += &format!("%{byte:02X}");
            }
        }
    }
    HeaderValue::from_str(&format!(
        "{kind}; filename=\"{ascii}\"; filename*=UTF-8''{exact}"
    ))
    .unwrap_or_else(|_| HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use sandbox_core::{SessionKey, Timestamp};

    use super::*;

    #[test]
    fn a_name_cannot_leave_its_header() {
        let record = |name: &str| ArtifactRecord {
            id: "i".into(),
            session: SessionKey::new("t".parse().unwrap(), "s".parse().unwrap()),
            execution: "e".parse().unwrap(),
            name: name.into(),
            path: name.into(),
            stored_path: ".sandbox/artifacts/i".into(),
            kind: "file".into(),
            mime_type: "text/html".into(),
            size_bytes: 1,
            sha256: "0".into(),
            table: None,
            created_at: Timestamp(0),
        };
        assert_eq!(
            disposition(&record("ä\"\r\n; x=.html")),
            "attachment; filename=\"______x_.html\"; \
             filename*=UTF-8''%C3%A4%22%0D%0A%3B%20x%3D.html"
        );
    }
}
