//! Every route, at `/` and under the prefix.

use axum::{Router, extract::Extension, middleware, routing::get};
use bytes::Bytes;
use http::Uri;
use sandbox_core::ErrorCode;
use utoipa::ToResponse as _;
use utoipa::openapi::{
    self, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder,
    security::{
        ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    AppState, artifacts, auth, backends, bash, contract,
    docs::{self, Document},
    execute, executions, files, health, languages_route, linger,
    problem::{ApiError, Problem},
    processes,
    request::{self, Tracked},
    search, sessions,
};

const ABOUT: &str = "Runs code that nobody should trust: each session is a sandbox with a workspace \
    of files. Every answer has an `X-Request-Id`; those that are not a success are \
    `application/problem+json` with a stable `code`. Unknown fields are refused. A body is at most \
    40 MiB. Times are in seconds and sizes in bytes where a name does not say otherwise. \
    `/healthz`, `/readyz`, `/metrics`, `/openapi.json` and `/docs` need no token.";
const BEARER: &str = "bearer";
const API_KEY: &str = "api_key";

fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(about())
        .routes(routes!(execute::execute))
        .routes(routes!(bash::bash))
        .routes(routes!(executions::list_executions))
        .routes(routes!(executions::get_execution))
        .routes(routes!(executions::execution_events))
        .routes(routes!(executions::cancel_execution))
        .routes(routes!(executions::export_audit))
        .routes(routes!(artifacts::list_artifacts))
        .routes(routes!(artifacts::get_artifact))
        .routes(routes!(processes::start_process, processes::list_processes))
        .routes(routes!(processes::get_process, processes::delete_process))
        .routes(routes!(processes::output::process_output))
        .routes(routes!(processes::input::write_process))
        .routes(routes!(processes::input::signal_process))
        .routes(routes!(processes::attach::attach_process))
        .routes(routes!(files::read::read))
        .routes(routes!(files::read_binary::read_binary))
        .routes(routes!(files::write::write))
        .routes(routes!(files::write::edit))
        .routes(routes!(files::tree::ls))
        .routes(routes!(files::tree::delete))
        .routes(routes!(files::tree::move_entry))
        .routes(routes!(search::grep))
        .routes(routes!(search::glob))
        .routes(routes!(sessions::list_sessions))
        .routes(routes!(
            sessions::get_session,
            sessions::create::create_session,
            sessions::delete_session
        ))
        .routes(routes!(sessions::pause::pause_session))
        .routes(routes!(sessions::pause::resume_session))
        .routes(routes!(sessions::contexts::list_contexts))
        .routes(routes!(sessions::contexts::restart_context))
        .routes(routes!(sessions::contexts::delete_context))
        .routes(routes!(sessions::archive::copy))
        .routes(routes!(sessions::archive::archive_of))
        .routes(routes!(backends::backends))
        .routes(routes!(languages_route::languages))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(docs::openapi_json))
        .routes(routes!(docs::page))
        // Parts of the page, not of the contract.
        .route("/docs/script.js", get(docs::script))
        .route("/docs/style.css", get(docs::style))
}

fn about() -> OpenApi {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some(
            "Signed by HS256, RS256, ES256 or EdDSA, as the operator configured; claims `exp`, \
             `sub` and `tenant_id` (or `tenants`). An API key (`sbx_...`) is taken as well. Not \
             needed where the service runs without tokens, on loopback.",
        ))
        .build();
    let key = ApiKeyValue::with_description(
        auth::API_KEY.as_str(),
        "A tenant's API key, made by `sandboxd keys create`; not together with a token.",
    );
    let (problem, answer) = Problem::response();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("sandboxd")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some(ABOUT))
                .license(Some(LicenseBuilder::new().name("Apache-2.0").build()))
                .build(),
        )
        .components(Some(
            openapi::ComponentsBuilder::new()
                .schema_from::<Problem>()
                .response(problem, answer)
                .security_scheme(BEARER, SecurityScheme::Http(bearer))
                .security_scheme(API_KEY, SecurityScheme::ApiKey(ApiKey::Header(key)))
                .build(),
        ))
        .security(Some([BEARER, API_KEY].map(|scheme| {
            SecurityRequirement::new::<_, [String; 0], String>(scheme, [])
        })))
        .build()
}

/// The OpenAPI document, made from the routes and what they take and give.
pub fn openapi() -> OpenApi {
    contract::complete(routes().into_openapi())
}

/// The whole service as one router.
pub fn router(state: AppState) -> Router {
    let (routes, document) = routes().split_for_parts();
    let document = contract::complete(document)
        .to_json()
        .unwrap_or_else(|error| {
            tracing::error!("failed to write the OpenAPI document: {error}");
            "{}".to_owned()
        });
    let mut router = Router::new().merge(routes.clone());
    let prefix = state.settings.prefix.as_str().to_owned();
    if !prefix.is_empty() {
        router = router.nest(&prefix, routes);
    }
    router
        .method_not_allowed_fallback(method_not_allowed)
        .fallback(not_found)
        .layer(middleware::from_fn(linger::linger))
        .layer(Extension(Document(Bytes::from(document))))
        .layer(middleware::from_fn_with_state(
            Tracked {
                state: state.clone(),
                api: "",
            },
            request::track,
        ))
        .with_state(state)
}

/// Another API of the same service: its requests have ids, spans, log lines and metrics
/// like all others, with `api` before their routes.
pub fn tracked(router: Router, state: AppState, api: &'static str) -> Router {
    router
        .layer(middleware::from_fn(linger::linger))
        .layer(middleware::from_fn_with_state(
            Tracked { state, api },
            request::track,
        ))
}

async fn not_found(uri: Uri) -> ApiError {
    let path: String = uri.path().chars().take(100).collect();
    ApiError::new(ErrorCode::NotFound, format!("there is no route `{path}`"))
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(
        ErrorCode::MethodNotAllowed,
        "the route does not take this method; `Allow` names those it does",
    )
}
