CREATE TABLE artifacts (
    id            TEXT    NOT NULL PRIMARY KEY,
    owner         TEXT    NOT NULL, -- the service whose machine has the workspace
    tenant_id     TEXT    NOT NULL,
    session_id    TEXT    NOT NULL,
    execution_id  TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    path          TEXT    NOT NULL,
    stored_path   TEXT    NOT NULL,
    kind          TEXT    NOT NULL,
    mime_type     TEXT    NOT NULL,
    size_bytes    INTEGER NOT NULL,
    sha256        TEXT    NOT NULL,
    table_json    TEXT,
    created_at_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX artifacts_by_session ON artifacts (tenant_id, session_id, id);
-- With the size in it, so that a tenant's sum is read from the index alone.
CREATE INDEX artifacts_by_tenant ON artifacts (tenant_id, size_bytes);
CREATE INDEX artifacts_by_time ON artifacts (created_at_ms);
