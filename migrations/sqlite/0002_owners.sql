-- Services that share a database keep their sessions apart by an owner's name.
CREATE TABLE owned_sessions (
    owner           TEXT    NOT NULL, -- the service whose machine has the workspace
    tenant_id       TEXT    NOT NULL,
    session_id      TEXT    NOT NULL,
    backend         TEXT    NOT NULL,
    spec            TEXT    NOT NULL, -- JSON
    created_at_ms   INTEGER NOT NULL,
    last_used_at_ms INTEGER NOT NULL,
    idle_timeout_ms INTEGER NOT NULL,
    expires_at_ms   INTEGER,
    UNIQUE (owner, tenant_id, session_id)
) STRICT;

INSERT INTO owned_sessions
SELECT '', tenant_id, session_id, backend, spec, created_at_ms, last_used_at_ms,
       idle_timeout_ms, expires_at_ms
FROM sessions;

DROP TABLE sessions;

ALTER TABLE owned_sessions RENAME TO sessions;
