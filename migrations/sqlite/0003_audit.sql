-- Ids are UUIDs of version 7, so that records sort by when they were made.
CREATE TABLE audit (
    id           TEXT    NOT NULL PRIMARY KEY,
    at_ms        INTEGER NOT NULL,
    tenant_id    TEXT    NOT NULL,
    session_id   TEXT,
    subject      TEXT    NOT NULL,
    action       TEXT    NOT NULL,
    execution_id TEXT,
    language     TEXT,
    code_sha256  TEXT,
    code         TEXT,
    path         TEXT,
    outcome      TEXT    NOT NULL,
    exit_code    INTEGER,
    bytes        INTEGER,
    duration_ms  INTEGER NOT NULL,
    request_id   TEXT
) STRICT;

CREATE INDEX audit_by_tenant ON audit (tenant_id, id);
CREATE INDEX audit_by_session ON audit (tenant_id, session_id, id);
CREATE INDEX audit_by_execution ON audit (execution_id, id) WHERE execution_id IS NOT NULL;
CREATE INDEX audit_by_time ON audit (at_ms);

-- Names of runs that are taken.
CREATE TABLE executions (
    tenant_id      TEXT    NOT NULL,
    execution_id   TEXT    NOT NULL,
    request_sha256 TEXT    NOT NULL,
    claim          TEXT    NOT NULL, -- tells the one who took it from all others
    claimed_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (tenant_id, execution_id)
) STRICT;

CREATE INDEX executions_by_time ON executions (claimed_at_ms);
