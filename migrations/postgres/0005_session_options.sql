-- What a session was asked to be, beside its sandbox: JSON.
ALTER TABLE sessions ADD COLUMN options TEXT NOT NULL DEFAULT '{}';
