-- Fields that queries ask for, and the indexes made for them. kind: 0 filter, 1 sort, 2 search; state: 0 candidate,
-- 1 building, 2 ready, 3 failed. A scan is a call that no index answered. build_micros: of the last build.
CREATE TABLE field_indexes (
    id INTEGER PRIMARY KEY,
    collection_id INTEGER NOT NULL,
    path TEXT NOT NULL,
    kind INTEGER NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    calls INTEGER NOT NULL,
    scans INTEGER NOT NULL,
    scan_micros INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    state_changed_at INTEGER NOT NULL,
    build_micros INTEGER,
    error TEXT,
    UNIQUE (collection_id, path, kind)
) STRICT;
