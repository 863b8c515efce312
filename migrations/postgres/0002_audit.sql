-- Ids are UUIDs of version 7, so that records sort by when they were made.
CREATE TABLE audit (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at_ms        BIGINT NOT NULL,
    tenant_id    TEXT COLLATE "C" NOT NULL,
    session_id   TEXT COLLATE "C",
    subject      TEXT COLLATE "C" NOT NULL,
    action       TEXT COLLATE "C" NOT NULL,
    execution_id TEXT COLLATE "C",
    language     TEXT COLLATE "C",
    code_sha256  TEXT COLLATE "C",
    code         TEXT COLLATE "C",
    path         TEXT COLLATE "C",
    outcome      TEXT COLLATE "C" NOT NULL,
    exit_code    BIGINT,
    bytes        BIGINT,
    duration_ms  BIGINT NOT NULL,
    request_id   TEXT COLLATE "C"
);

CREATE INDEX audit_by_tenant ON audit (tenant_id, id);
CREATE INDEX audit_by_session ON audit (tenant_id, session_id, id);
CREATE INDEX audit_by_execution ON audit (execution_id, id) WHERE execution_id IS NOT NULL;
CREATE INDEX audit_by_time ON audit (at_ms);

-- Names of runs that are taken.
CREATE TABLE executions (
    tenant_id      TEXT COLLATE "C" NOT NULL,
    execution_id   TEXT COLLATE "C" NOT NULL,
    request_sha256 TEXT COLLATE "C" NOT NULL,
    claim          TEXT COLLATE "C" NOT NULL, -- tells the one who took it from all others
    claimed_at_ms  BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, execution_id)
);

CREATE INDEX executions_by_time ON executions (claimed_at_ms);
