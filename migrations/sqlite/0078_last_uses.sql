-- What a user recognizes the browser of a session by (docs/adr/0147). device: such as "Firefox on Linux"; address: the
-- client's, when it was last used; last_used_at is written once a minute.
ALTER TABLE web_sessions ADD COLUMN device TEXT;
ALTER TABLE web_sessions ADD COLUMN address TEXT;
ALTER TABLE web_sessions ADD COLUMN last_used_at INTEGER;

-- When an API client last called a method, written once a minute.
ALTER TABLE api_clients ADD COLUMN last_used_at INTEGER;
