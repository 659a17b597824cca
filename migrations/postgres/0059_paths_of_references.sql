-- The places of a record where each of its references is, separated by spaces, and the record's account (docs/adr/0120). NULL in
-- rows of before: a task of the server reads these records again, collection by collection, and then also knows their
-- references to accounts.
--
-- Each attempt waits for running reads for at most 0.2 s, because reads that begin meanwhile wait behind it. Nothing is
-- rewritten, so the attempt that gets its locks is done at once.

-- The timeouts of the role or the database are meant for short statements.
SET LOCAL statement_timeout = 0;

-- The collections whose records it still has to read, and the last one that it has read.
CREATE TABLE unread_refs (
    collection_id BIGINT PRIMARY KEY,
    after_indexed_at BIGINT NOT NULL,
    after_id BIGINT NOT NULL
);

INSERT INTO unread_refs (collection_id, after_indexed_at, after_id)
SELECT id, -9223372036854775808, -9223372036854775808 FROM collections;

DO $$
DECLARE
    attempts bigint := 0;
BEGIN
    LOOP
        attempts := attempts + 1;
        BEGIN
            PERFORM set_config('lock_timeout', '200ms', true);
            ALTER TABLE record_refs ADD COLUMN paths TEXT, ADD COLUMN did_id BIGINT;

            CREATE OR REPLACE VIEW script_views.record_refs AS
            SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS source_uri, f.target AS target_uri,
                c.nsid AS collection, f.paths
            FROM record_refs f JOIN records r ON r.collection_id = f.collection_id AND r.id = f.record_id
                JOIN collections c ON c.id = f.collection_id JOIN dids d ON d.id = r.did_id AND d.status = 0;

            CREATE OR REPLACE VIEW script_views.record_refs_lean AS
            SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS source_uri, f.target AS target_uri,
                c.nsid AS collection, f.collection_id, f.paths
            FROM record_refs f JOIN records r ON r.collection_id = f.collection_id AND r.id = f.record_id
                JOIN collections c ON c.id = f.collection_id JOIN dids d ON d.id = r.did_id AND d.status = 0;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            -- Once a minute or so.
            IF attempts % 150 = 0 THEN
                RAISE WARNING 'a long read does not let the migration change the table of references: end that transaction '
                    '(pg_stat_activity shows it), or wait for its end';
            END IF;
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$;
