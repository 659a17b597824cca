-- The client that sent the request that caused an event: its address, how it authenticated (session, api_key,
-- service_token, dpop), and the name of its API key. NULL: the server itself caused the event (docs/adr/0146).
ALTER TABLE events ADD COLUMN address TEXT COLLATE "C";
ALTER TABLE events ADD COLUMN authentication TEXT COLLATE "C";
ALTER TABLE events ADD COLUMN api_key TEXT;

-- The event log's list and count by an actor, by an address and by a whole subject, newest first.
CREATE INDEX events_actor ON events (actor_did, created_at, id) WHERE actor_did IS NOT NULL;
CREATE INDEX events_address ON events (address, created_at, id) WHERE address IS NOT NULL;
-- Subjects have any length, and an entry of an index has not.
CREATE INDEX events_subject ON events (substr(subject, 1, 200), created_at, id) WHERE subject IS NOT NULL;
