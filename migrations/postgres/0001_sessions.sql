-- Times are milliseconds since 1970, UTC. Text is in the order of its bytes
-- whatever the database's locale is, as in SQLite.
CREATE TABLE sessions (
    owner           TEXT COLLATE "C" NOT NULL, -- the service whose machine has the workspace
    tenant_id       TEXT COLLATE "C" NOT NULL,
    session_id      TEXT COLLATE "C" NOT NULL,
    backend         TEXT COLLATE "C" NOT NULL,
    spec            TEXT COLLATE "C" NOT NULL, -- JSON
    created_at_ms   BIGINT NOT NULL,
    last_used_at_ms BIGINT NOT NULL,
    idle_timeout_ms BIGINT NOT NULL,
    expires_at_ms   BIGINT,
    PRIMARY KEY (owner, tenant_id, session_id)
);
