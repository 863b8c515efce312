-- What the session's sandbox is called outside. NULL: made from the session's name.
ALTER TABLE sessions ADD COLUMN sandbox_id TEXT;
