-- Splits records and record_refs into 16 hash partitions by collection (docs/adr/0078), so that a large collection can be
-- vacuumed, indexed, moved and dropped without the others, and each statement of the hot path reads one partition.
--
-- Everything happens in one transaction: a migration that is interrupted leaves the tables as they were. Until the last
-- statement reads go on and writes wait. The last statement keeps reads out while it swaps names, for some tens of
-- milliseconds. A long read does not let it: then it tries again, and other reads wait for at most 0.2 s at a time.

-- The timeouts of the role or the database are meant for short statements.
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;

LOCK TABLE records, record_refs, invalid_records IN SHARE ROW EXCLUSIVE MODE;

-- Not an identity column: a statement that names a partition would have no default for it on PostgreSQL 15 and 16.
CREATE SEQUENCE record_ids;
SELECT setval('record_ids', nextval(pg_get_serial_sequence('records', 'id')));

CREATE TABLE records_new (
    id BIGINT NOT NULL DEFAULT nextval('record_ids'),
    collection_id BIGINT NOT NULL,
    did_id BIGINT NOT NULL,
    rkey TEXT COLLATE "C" NOT NULL,
    cid BYTEA,
    cid_verified BOOLEAN NOT NULL,
    rev BIGINT NOT NULL,
    indexed_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    record JSONB NOT NULL
) PARTITION BY HASH (collection_id);

ALTER SEQUENCE record_ids OWNED BY records_new.id;

CREATE TABLE record_refs_new (
    target TEXT COLLATE "C" NOT NULL,
    collection_id BIGINT NOT NULL,
    record_id BIGINT NOT NULL
) PARTITION BY HASH (collection_id);

-- The partitions: records_00 to records_15, and record_refs_00 to record_refs_15. Those of one number have the same
-- collections. They keep the storage parameters that an operator has given to the tables.
DO $$
DECLARE
    parent text;
    options text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['records', 'record_refs'] LOOP
        SELECT coalesce('WITH (' || array_to_string(reloptions, ', ') || ')', '') INTO options
        FROM pg_class WHERE oid = parent::regclass;
        FOR n IN 0..15 LOOP
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS 16, REMAINDER %s) %s',
                parent || '_' || lpad(n::text, 2, '0'), parent || '_new', n, options);
        END LOOP;
    END LOOP;
END $$;

INSERT INTO records_new (id, collection_id, did_id, rkey, cid, cid_verified, rev, indexed_at, updated_at, record)
SELECT id, collection_id, did_id, rkey, cid, cid_verified, rev, indexed_at, updated_at, record FROM records;

INSERT INTO record_refs_new (target, collection_id, record_id)
SELECT target, collection_id, record_id FROM record_refs;

-- The indexes, first those of the partitions, so that their names say what they are. Those of the tables take them in. The
-- key begins with the id, because new ids are then added at the end of its index.
DO $$
DECLARE
    n text;
BEGIN
    FOR i IN 0..15 LOOP
        n := lpad(i::text, 2, '0');
        EXECUTE format('ALTER TABLE records_%s ADD CONSTRAINT records_%s_pkey PRIMARY KEY (id, collection_id)', n, n);
        EXECUTE format('CREATE UNIQUE INDEX records_%s_key ON records_%s (collection_id, did_id, rkey)', n, n);
        EXECUTE format('CREATE INDEX records_%s_list ON records_%s (collection_id, indexed_at, id)', n, n);
        EXECUTE format('CREATE INDEX records_%s_list_did ON records_%s (collection_id, did_id, indexed_at, id)', n, n);
        EXECUTE format('ALTER TABLE record_refs_%s ADD CONSTRAINT record_refs_%s_pkey '
            'PRIMARY KEY (target, collection_id, record_id)', n, n);
        EXECUTE format('CREATE INDEX record_refs_%s_record ON record_refs_%s (record_id)', n, n);
    END LOOP;
END $$;

ALTER TABLE records_new ADD CONSTRAINT records_new_pkey PRIMARY KEY (id, collection_id);
CREATE UNIQUE INDEX records_new_key ON records_new (collection_id, did_id, rkey);
CREATE INDEX records_new_list ON records_new (collection_id, indexed_at, id);
CREATE INDEX records_new_list_did ON records_new (collection_id, did_id, indexed_at, id);
ALTER TABLE record_refs_new ADD CONSTRAINT record_refs_new_pkey PRIMARY KEY (target, collection_id, record_id);
CREATE INDEX record_refs_new_record ON record_refs_new (record_id);

-- The other indexes of records: those of fields on the partition of their collection, an operator's own on all partitions.
DO $$
DECLARE
    found record;
    target text;
BEGIN
    FOR found IN
        SELECT c.relname, i.indisunique, f.collection_id,
            substr(pg_get_indexdef(c.oid), strpos(pg_get_indexdef(c.oid), ' USING ')) AS definition
        FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            LEFT JOIN field_indexes f ON c.relname IN ('field_index_' || f.id, 'field_search_' || f.id)
        WHERE i.indrelid = 'records'::regclass AND i.indisvalid
            AND c.relname NOT IN ('records_pkey', 'records_key', 'records_list', 'records_list_did')
        ORDER BY c.relname
    LOOP
        IF found.collection_id IS NOT NULL THEN
            SELECT 'records_' || lpad(n::text, 2, '0') INTO target FROM generate_series(0, 15) n
            WHERE satisfies_hash_partition('records_new'::regclass, 16, n, found.collection_id);
        ELSIF found.indisunique THEN
            RAISE EXCEPTION 'the unique index % on records was not made by Belvedere, and a partitioned table can''t have it: '
                'drop it and start again', found.relname;
        ELSE
            target := 'records_new';
        END IF;
        EXECUTE format('CREATE INDEX %I ON %I%s', 'new_' || found.relname, target, found.definition);
    END LOOP;
END $$;

-- Without statistics the first reads would be planned as for empty tables.
ANALYZE records_new, record_refs_new;

ALTER TABLE invalid_records ADD CONSTRAINT invalid_records_record_fkey FOREIGN KEY (collection_id, record_id)
    REFERENCES records_new (collection_id, id) ON DELETE CASCADE;

-- A statement that names a partition runs the triggers of that partition, one that names the table those of the table.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT relid::regclass::text FROM pg_partition_tree('records_new') LOOP
        EXECUTE format('CREATE TRIGGER records_counted_in AFTER INSERT ON %s REFERENCING NEW TABLE AS changed '
            'FOR EACH STATEMENT EXECUTE FUNCTION count_records_in()', name);
        EXECUTE format('CREATE TRIGGER records_counted_out AFTER DELETE ON %s REFERENCING OLD TABLE AS changed '
            'FOR EACH STATEMENT EXECUTE FUNCTION count_records_out()', name);
    END LOOP;
END $$;

-- What other roles were granted on the tables.
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT c.relname, a.privilege_type, a.is_grantable,
            CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS grantee
        FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid IN ('records'::regclass, 'record_refs'::regclass) AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON %I TO %s%s', found.privilege_type, found.relname || '_new', found.grantee,
            CASE WHEN found.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END);
    END LOOP;
END $$;

-- The id of a collection. Immutable, so that it is a constant when a statement is planned, and one partition is planned:
-- an id never changes, and the statements of scripts are planned anew for each call.
CREATE FUNCTION script_views.collection_id(nsid text) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    RETURN (SELECT c.id FROM script_views.collection_ids c WHERE c.nsid = collection_id.nsid);
END $$;

-- The swap. Each attempt waits for running reads for at most 0.2 s for each lock, because reads that begin meanwhile wait
-- behind it. That is also shorter than PostgreSQL waits before it looks for deadlocks: reads lock these tables in any order.
DO $$
DECLARE
    attempts bigint := 0;
    name text;
BEGIN
    LOOP
        attempts := attempts + 1;
        BEGIN
            PERFORM set_config('lock_timeout', '200ms', true);
            CREATE OR REPLACE VIEW script_views.records AS
            SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS uri, d.did, c.nsid AS collection, r.rkey,
                script_views.cid_text(r.cid) AS cid, script_views.time_text(r.indexed_at) AS indexed_at,
                r.indexed_at AS indexed_us, r.record,
                NOT EXISTS (SELECT 1 FROM invalid_records i WHERE i.record_id = r.id) AS valid
            FROM collections c JOIN records_new r ON r.collection_id = c.id JOIN dids d ON d.id = r.did_id AND d.status = 0;

            CREATE OR REPLACE VIEW script_views.records_lean AS
            SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS uri, d.did, c.nsid AS collection, r.rkey,
                script_views.cid_text(r.cid) AS cid, script_views.time_text(r.indexed_at) AS indexed_at,
                r.indexed_at AS indexed_us, r.record, r.collection_id,
                NOT EXISTS (SELECT 1 FROM invalid_records i WHERE i.record_id = r.id) AS valid
            FROM records_new r JOIN collections c ON c.id = r.collection_id JOIN dids d ON d.id = r.did_id AND d.status = 0;

            -- The collection of both tables lets PostgreSQL look into one partition of each.
            CREATE OR REPLACE VIEW script_views.record_refs AS
            SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS source_uri, f.target AS target_uri,
                c.nsid AS collection
            FROM record_refs_new f JOIN records_new r ON r.collection_id = f.collection_id AND r.id = f.record_id
                JOIN collections c ON c.id = f.collection_id JOIN dids d ON d.id = r.did_id AND d.status = 0;

            -- The same for statements that name their columns.
            CREATE OR REPLACE VIEW script_views.record_refs_lean AS
            SELECT 'at://' || d.did || '/' || c.nsid || '/' || r.rkey AS source_uri, f.target AS target_uri,
                c.nsid AS collection, f.collection_id
            FROM record_refs_new f JOIN records_new r ON r.collection_id = f.collection_id AND r.id = f.record_id
                JOIN collections c ON c.id = f.collection_id JOIN dids d ON d.id = r.did_id AND d.status = 0;

            LOCK TABLE records, record_refs, invalid_records IN ACCESS EXCLUSIVE MODE;
            ALTER TABLE invalid_records DROP CONSTRAINT invalid_records_record_id_fkey;
            DROP TABLE records, record_refs;
            ALTER TABLE records_new RENAME TO records;
            ALTER TABLE record_refs_new RENAME TO record_refs;
            ALTER INDEX records_new_pkey RENAME TO records_pkey;
            ALTER INDEX records_new_key RENAME TO records_key;
            ALTER INDEX records_new_list RENAME TO records_list;
            ALTER INDEX records_new_list_did RENAME TO records_list_did;
            ALTER INDEX record_refs_new_pkey RENAME TO record_refs_pkey;
            ALTER INDEX record_refs_new_record RENAME TO record_refs_record;
            FOR name IN
                SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                WHERE c.relname LIKE 'new\_%' AND i.indrelid IN (SELECT relid FROM pg_partition_tree('records'))
            LOOP
                EXECUTE format('ALTER INDEX %I RENAME TO %I', name, substr(name, 5));
            END LOOP;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            -- Once a minute or so.
            IF attempts % 150 = 0 THEN
                RAISE WARNING 'the migration is complete but for the names of the tables, which a long read does not let it '
                    'change: end that transaction (pg_stat_activity shows it), or wait for its end';
            END IF;
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$;
