//! `sandboxd keys`: API keys, made and revoked beside the running service.

use std::{
    error::Error,
    fs,
    io::{self, Write as _},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use sandbox_auth::ApiKey;
use sandbox_core::{Clock as _, SystemClock, TenantId, Timestamp};
use sandbox_store::{KeyRecord, KeyStore};

use crate::{
    cli::{CreateKey, KeysCommand},
    settings::Settings,
};

const MAX_NAME_CHARS: usize = 100;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub fn run(settings: &Settings, command: &KeysCommand) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let store = open(settings).await?;
        match command {
            KeysCommand::Create(wanted) => create(settings, store.as_ref(), wanted).await,
            KeysCommand::List { tenant } => list(store.as_ref(), tenant.as_deref()).await,
            KeysCommand::Revoke { id } => revoke(store.as_ref(), id).await,
        }
    })
}

async fn open(settings: &Settings) -> Result<Arc<dyn KeyStore>> {
    let dir = &settings.state_dir;
    fs::create_dir_all(dir)
        .map_err(|error| format!("failed to make the folder `{}`: {error}", dir.display()))?;
    // Keys are no service's own.
    Ok(sandbox_store::open(&settings.database(), "").await?)
}

/// The key alone is on standard output, for scripts.
async fn create(settings: &Settings, store: &dyn KeyStore, wanted: &CreateKey) -> Result<()> {
    let tenant: TenantId = wanted.tenant.parse()?;
    if wanted.name.chars().count() > MAX_NAME_CHARS || wanted.name.chars().any(char::is_control) {
        return Err(
            "a name is at most 100 characters, and none of them a control character".into(),
        );
    }
    let key = if wanted.e2b {
        ApiKey::generate_e2b()?
    } else {
        ApiKey::generate()?
    };
    let record = KeyRecord {
        id: key.id().to_owned(),
        tenant,
        admin: wanted.admin,
        name: wanted.name.clone(),
        secret_sha256: key.secret_sha256(),
        created_at: SystemClock.now(),
        revoked_at: None,
    };
    store.add_key(&record).await?;
    eprintln!(
        "made key `{}` for tenant `{}`; it is shown this once:",
        record.id, record.tenant
    );
    if !settings.api_keys {
        eprintln!("it opens nothing before api_keys = true is set (SANDBOX_API_KEYS=true)");
    }
    writeln!(io::stdout().lock(), "{}", key.reveal())?;
    Ok(())
}

async fn list(store: &dyn KeyStore, tenant: Option<&str>) -> Result<()> {
    let tenant = tenant.map(str::parse::<TenantId>).transpose()?;
    let keys = store.list_keys(tenant.as_ref()).await?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{:<16}  {:<20}  {:<6}  {:<29}  {:<20}  NAME",
        "ID", "TENANT", "ROLE", "STATE", "CREATED"
    )?;
    for key in keys {
        let state = key.revoked_at.map_or_else(
            || "active".to_owned(),
            |at| format!("revoked {}", written(at)),
        );
        writeln!(
            out,
            "{:<16}  {:<20}  {:<6}  {:<29}  {:<20}  {}",
            key.id,
            key.tenant.as_str(),
            if key.admin { "admin" } else { "tenant" },
            state,
            written(key.created_at),
            key.name
        )?;
    }
    Ok(())
}

async fn revoke(store: &dyn KeyStore, id: &str) -> Result<()> {
    // Whoever pastes the whole key means its id, and must not find it in an error.
    let id = match (id.strip_prefix("sbx_"), id.strip_prefix("e2b_")) {
        (Some(rest), _) => rest.split('_').next().unwrap_or_default(),
        (None, Some(rest)) => rest.get(..16).unwrap_or(rest),
        (None, None) => id,
    };
    if !store.revoke_key(id, SystemClock.now()).await? {
        return Err("there is no such key, or it was revoked before".into());
    }
    eprintln!("revoked key `{id}`: within five seconds it opens nothing");
    Ok(())
}

fn written(time: Timestamp) -> String {
    let ms = u64::try_from(time.0).unwrap_or(0);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}
