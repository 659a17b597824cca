-- When scripts of the trigger schedule:NAME run next (docs/adr/0155).
CREATE TABLE schedules (
    name TEXT PRIMARY KEY,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    next_at BIGINT NOT NULL
);
