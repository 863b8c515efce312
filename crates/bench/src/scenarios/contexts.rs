//! The first run of a context.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use crate::{Result, client::Client, service::Service, work::Work};

/// In a session that lives, a context is made by its first run and ended after it.
pub struct NewContext {
    client: Client,
    code: &'static str,
    number: usize,
}

const SESSION: &str = "contexts";

impl NewContext {
    pub async fn of(service: &Service, code: &'static str) -> Result<Self> {
        Ok(Self {
            client: service.client().await?,
            code,
            number: 0,
        })
    }
}

#[async_trait(?Send)]
impl Work for NewContext {
    async fn once(&mut self) -> Result<Duration> {
        self.number += 1;
        let context = format!("new-{}", self.number);
        let body = json!({"session_id": SESSION, "code": self.code, "context": context});
        let answer = self.client.post("/execute", &body).await?;
        let path = format!("/sessions/default/{SESSION}/contexts/{context}");
        self.client.ask(Method::DELETE, &path, Bytes::new()).await?;
        let ended: Value = serde_json::from_slice(&answer.body)?;
        match ended["exit_code"].as_i64() {
            Some(0) => Ok(answer.took),
            _ => Err(format!("the run did not end well: {ended:.300}").into()),
        }
    }
}
