-- Conditions about measurements, which one host at a time checks (docs/adr/0149). secret: sealed, signs the calls of the webhook.
-- state_at: when the state began. notice: the change of state that the target has not been sent yet, at notice_at; a notice that
-- could not be sent often enough is dropped. There are at most 50, so every statement may read all.
CREATE TABLE alerts (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    metric TEXT NOT NULL,
    label TEXT,
    condition TEXT NOT NULL,
    threshold DOUBLE PRECISION NOT NULL,
    minutes BIGINT NOT NULL,
    target TEXT NOT NULL,
    url TEXT,
    secret BYTEA,
    is_enabled BOOLEAN NOT NULL,
    revision BIGINT NOT NULL,
    state TEXT NOT NULL,
    state_at BIGINT NOT NULL,
    value DOUBLE PRECISION,
    checked_at BIGINT,
    notice TEXT,
    notice_at BIGINT,
    attempts BIGINT NOT NULL DEFAULT 0,
    delivery_error TEXT,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
