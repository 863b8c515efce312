CREATE TABLE api_keys (
    id            TEXT    NOT NULL PRIMARY KEY,
    tenant_id     TEXT    NOT NULL,
    admin         INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    secret_sha256 BLOB    NOT NULL,
    created_at_ms INTEGER NOT NULL,
    revoked_at_ms INTEGER
) STRICT;
