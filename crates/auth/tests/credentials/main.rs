//! Tokens, sets of keys and API keys, with keys that OpenSSL made.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod api_keys;
mod jwks;
mod support;
mod tokens;
