-- Since when a session is paused; NULL: it is not.
ALTER TABLE sessions ADD COLUMN paused_at_ms BIGINT;
