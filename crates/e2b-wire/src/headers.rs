//! Headers that have a meaning, in lower case.

/// The caller's key, on the control plane.
pub const API_KEY: &str = "x-api-key";
/// Where the next page of a list begins; absent on the last one.
pub const NEXT_TOKEN: &str = "x-next-token";
/// Whether the SDK may send the same request again.
pub const SHOULD_RETRY: &str = "should-retry";
/// Makes a create that is sent twice the same one.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Which sandbox is meant, where the host's name does not say it.
pub const SANDBOX_ID: &str = "e2b-sandbox-id";
/// Which port of it.
pub const SANDBOX_PORT: &str = "e2b-sandbox-port";
/// The token of envd.
pub const ACCESS_TOKEN: &str = "x-access-token";
/// The token of every other port of a sandbox whose traffic is not public.
pub const TRAFFIC_TOKEN: &str = "e2b-traffic-access-token";
/// Seconds of silence after which a stream of envd shows that it lives.
pub const KEEPALIVE_INTERVAL: &str = "keepalive-ping-interval";
