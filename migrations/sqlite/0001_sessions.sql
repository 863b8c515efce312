-- Times are milliseconds since 1970, UTC.
CREATE TABLE sessions (
    tenant_id       TEXT    NOT NULL,
    session_id      TEXT    NOT NULL,
    backend         TEXT    NOT NULL,
    spec            TEXT    NOT NULL, -- JSON
    created_at_ms   INTEGER NOT NULL,
    last_used_at_ms INTEGER NOT NULL,
    idle_timeout_ms INTEGER NOT NULL,
    expires_at_ms   INTEGER,
    UNIQUE (tenant_id, session_id)
) STRICT;
