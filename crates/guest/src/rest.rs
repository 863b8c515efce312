//! The plain HTTP routes of the contract: /health, /init, /envs, /metrics, /files.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, OpenOptions},
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use connectrpc::ConnectError;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use sandbox_core::ErrorCode;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    error::{blocking, error, from_io},
    path,
    state::Guest,
    workspace::open::{open, replace},
};

/// Largest upload, and largest file that is downloaded in one piece.
const MAX_FILE_BYTES: usize = 256 * 1024 * 1024;
const MAX_INIT_BYTES: usize = 4 * 1024 * 1024;
const DEFAULT_MODE: u32 = 0o644;

type Answer = Response<Full<Bytes>>;

/// The variables that a sandbox starts with; what the contract has beyond it is
/// for other places than ours.
#[derive(Deserialize)]
struct Init {
    #[serde(default, rename = "envVars")]
    env: Option<BTreeMap<String, String>>,
}

/// A file that was uploaded.
#[derive(Serialize)]
struct Uploaded {
    name: String,
    r#type: &'static str,
    path: String,
}

pub(crate) async fn handle(guest: Arc<Guest>, request: Request<Incoming>) -> Answer {
    let route = (request.method().clone(), request.uri().path().to_owned());
    let result = match (&route.0, route.1.as_str()) {
        (&Method::GET, "/health") => Ok(status(StatusCode::NO_CONTENT)),
        (&Method::POST, "/init") => init(&guest, request).await,
        (&Method::GET, "/envs") => Ok(ok(&guest.env())),
        (&Method::GET, "/metrics") => Ok(ok(&metrics(&guest.workspace))),
        (&Method::GET, "/files") => download(&guest, &request).await,
        (&Method::POST, "/files") => upload(&guest, request).await,
        _ => Err(ConnectError::not_found("there is no such route")),
    };
    result.unwrap_or_else(|failed| {
        let status = match failed.code {
            connectrpc::ErrorCode::ResourceExhausted => StatusCode::INSUFFICIENT_STORAGE,
            _ => failed.http_status(),
        };
        let message = failed.message.unwrap_or_default();
        let body = json!({ "code": status.as_u16(), "message": message });
        json_answer(status, &body)
    })
}

fn status(status: StatusCode) -> Answer {
    let mut answer = Answer::default();
    *answer.status_mut() = status;
    answer
}

fn json_answer(code: StatusCode, body: &impl Serialize) -> Answer {
    let mut answer = status(code);
    *answer.body_mut() = Full::new(serde_json::to_vec(body).unwrap_or_default().into());
    let json = header::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn ok(body: &impl Serialize) -> Answer {
    json_answer(StatusCode::OK, body)
}

async fn body(request: Request<Incoming>, limit: usize) -> Result<Bytes, ConnectError> {
    let body = Limited::new(request.into_body(), limit).collect().await;
    body.map(|body| body.to_bytes())
        .map_err(|_| ConnectError::invalid_argument("the body is too large or broken"))
}

async fn init(guest: &Guest, request: Request<Incoming>) -> Result<Answer, ConnectError> {
    let body = body(request, MAX_INIT_BYTES).await?;
    let init: Init = serde_json::from_slice(&body)
        .map_err(|cause| ConnectError::invalid_argument(cause.to_string()))?;
    guest.add_env(init.env.unwrap_or_default());
    Ok(status(StatusCode::NO_CONTENT))
}

fn metrics(workspace: &Path) -> serde_json::Value {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name: &str| -> u64 {
        memory
            .lines()
            .find_map(|line| {
                line.strip_prefix(name)?
                    .split_whitespace()
                    .next()?
                    .parse()
                    .ok()
            })
            .unwrap_or(0)
    };
    let disk = rustix::fs::statvfs(workspace).ok();
    let (total, free) = disk.map_or((0, 0), |disk| {
        (disk.f_blocks * disk.f_frsize, disk.f_bfree * disk.f_frsize)
    });
    json!({
        "ts": fs::metadata("/proc/self").and_then(|now| now.modified()).ok()
            .and_then(|now| now.duration_since(std::time::UNIX_EPOCH).ok())
            .map_or(0, |since| since.as_secs()),
        "cpu_count": std::thread::available_parallelism().map_or(1, usize::from),
        "cpu_used_pct": 0,
        "mem_total": kib("MemTotal:") * 1024,
        "mem_used": (kib("MemTotal:") - kib("MemAvailable:")) * 1024,
        "mem_cache": kib("Cached:") * 1024,
        "disk_total": total,
        "disk_used": total - free,
    })
}

fn query(request: &Request<Incoming>) -> HashMap<String, String> {
    let query = request.uri().query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}

async fn download(guest: &Guest, request: &Request<Incoming>) -> Result<Answer, ConnectError> {
    let shown = query(request).remove("path").unwrap_or_default();
    let file = path::in_sandbox(&guest.workspace, &shown)?;
    let data = blocking(move || {
        let (open, found) = open(&file, OpenOptions::new().read(true), &shown)?;
        if found.len() > MAX_FILE_BYTES as u64 {
            return Err(error(
                ErrorCode::TooLarge,
                "the file is larger than 256 MiB",
            ));
        }
        let mut data = Vec::new();
        open.take(MAX_FILE_BYTES as u64)
            .read_to_end(&mut data)
            .map_err(|cause| from_io(&cause, &shown))?;
        Ok(data)
    })
    .await
    .map_err(|failed| match failed.code {
        // The contract's word for a path that exists but is no file.
        connectrpc::ErrorCode::NotFound => {
            ConnectError::not_found(failed.message.unwrap_or_default())
        }
        _ => failed,
    })?;
    Ok(Response::new(Full::new(data.into())))
}

async fn upload(guest: &Guest, request: Request<Incoming>) -> Result<Answer, ConnectError> {
    let given = query(&request).remove("path");
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let files = if kind.starts_with("application/octet-stream") {
        let path = given.ok_or_else(|| ConnectError::invalid_argument("`path` is missing"))?;
        vec![(path, body(request, MAX_FILE_BYTES).await?)]
    } else {
        let boundary = multer::parse_boundary(&kind)
            .map_err(|cause| ConnectError::invalid_argument(cause.to_string()))?;
        parts(request, &boundary, given).await?
    };
    let mut written = Vec::new();
    for (shown, data) in files {
        let file = path::in_sandbox(&guest.workspace, &shown)?;
        written.push(blocking(move || write(&file, &data, &shown)).await?);
    }
    Ok(ok(&written))
}

async fn parts(
    request: Request<Incoming>,
    boundary: &str,
    given: Option<String>,
) -> Result<Vec<(String, Bytes)>, ConnectError> {
    let broken = |cause: multer::Error| ConnectError::invalid_argument(cause.to_string());
    let limit = multer::SizeLimit::new().whole_stream(MAX_FILE_BYTES as u64);
    let mut parts = multer::Multipart::with_constraints(
        request.into_body().into_data_stream(),
        boundary,
        multer::Constraints::new().size_limit(limit),
    );
    let mut files = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        if part.name() != Some("file") {
            continue;
        }
        let name = part.file_name().map(str::to_owned);
        let path = given
            .clone()
            .or(name)
            .ok_or_else(|| ConnectError::invalid_argument("a file has no name"))?;
        files.push((path, part.bytes().await.map_err(broken)?));
    }
    Ok(files)
}

fn write(file: &Path, data: &[u8], shown: &str) -> Result<Uploaded, ConnectError> {
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).map_err(|cause| from_io(&cause, shown))?;
    }
    match fs::metadata(file) {
        Ok(found) if found.is_dir() => {
            return Err(error(
                ErrorCode::IsADirectory,
                format!("`{shown}` is a directory"),
            ));
        }
        Ok(found) if !found.is_file() => return Err(crate::error::not_regular(shown)),
        _ => {}
    }
    replace(file, data, DEFAULT_MODE, shown)?;
    let path: PathBuf = file.to_owned();
    Ok(Uploaded {
        name: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        r#type: "file",
        path: path.to_string_lossy().into_owned(),
    })
}
