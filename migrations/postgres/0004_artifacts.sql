CREATE TABLE artifacts (
    id            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner         TEXT COLLATE "C" NOT NULL, -- the service whose machine has the workspace
    tenant_id     TEXT COLLATE "C" NOT NULL,
    session_id    TEXT COLLATE "C" NOT NULL,
    execution_id  TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    path          TEXT COLLATE "C" NOT NULL,
    stored_path   TEXT COLLATE "C" NOT NULL,
    kind          TEXT COLLATE "C" NOT NULL,
    mime_type     TEXT COLLATE "C" NOT NULL,
    size_bytes    BIGINT NOT NULL,
    sha256        TEXT COLLATE "C" NOT NULL,
    table_json    TEXT COLLATE "C",
    created_at_ms BIGINT NOT NULL
);

CREATE INDEX artifacts_by_session ON artifacts (tenant_id, session_id, id);
-- With the size in it, so that a tenant's sum is read from the index alone.
CREATE INDEX artifacts_by_tenant ON artifacts (tenant_id, size_bytes);
CREATE INDEX artifacts_by_time ON artifacts (created_at_ms);
