CREATE TABLE api_keys (
    id            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant_id     TEXT COLLATE "C" NOT NULL,
    admin         BOOLEAN NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    secret_sha256 BYTEA NOT NULL,
    created_at_ms BIGINT NOT NULL,
    revoked_at_ms BIGINT
);
