-- The last bodies of each script, so that an operator can compare them and go back. kind: saved, or deleted (without a
-- body). saved_by: the DID of the admin; NULL if it is not known.
CREATE TABLE saved_scripts (
    script_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT,
    description TEXT,
    saved_by TEXT,
    saved_at INTEGER NOT NULL,
    PRIMARY KEY (script_id, revision)
) STRICT, WITHOUT ROWID;

INSERT INTO saved_scripts (script_id, revision, kind, body, description, saved_by, saved_at)
SELECT id, 1, 'saved', body, description, NULL, updated_at FROM scripts;

-- The scripts that were deleted last (GET /admin/scripts/deleted).
CREATE INDEX saved_scripts_deleted ON saved_scripts (saved_at) WHERE kind = 'deleted';

-- The last documents of each lexicon. revision: that of the lexicon. saved_by: NULL if the network changed it.
CREATE TABLE lexicon_revisions (
    lexicon_id TEXT NOT NULL,
    revision INTEGER NOT NULL,
    lexicon_json TEXT NOT NULL,
    source TEXT NOT NULL,
    saved_by TEXT,
    saved_at INTEGER NOT NULL,
    PRIMARY KEY (lexicon_id, revision)
) STRICT, WITHOUT ROWID;

INSERT INTO lexicon_revisions (lexicon_id, revision, lexicon_json, source, saved_by, saved_at)
SELECT id, revision, lexicon_json, source, NULL, updated_at FROM lexicons;
