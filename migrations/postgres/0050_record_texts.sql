-- A record's text beside its value, which reads return as it is (docs/adr/0084). Records of before have none: their text is
-- made from the value, as it was.
--
-- Each attempt waits for running reads for at most 0.2 s, because reads that begin meanwhile wait behind it. Nothing is
-- rewritten, so the attempt that gets its locks is done at once.

-- The timeouts of the role or the database are meant for short statements.
SET LOCAL statement_timeout = 0;

-- A host of the version before changes only the value, and so may an operator.
CREATE OR REPLACE FUNCTION forget_record_text() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.record_text := NULL;
    RETURN NEW;
END $$;

DO $$
DECLARE
    attempts bigint := 0;
BEGIN
    LOOP
        attempts := attempts + 1;
        BEGIN
            PERFORM set_config('lock_timeout', '200ms', true);
            ALTER TABLE records ADD COLUMN record_text TEXT;
            CREATE TRIGGER records_text BEFORE UPDATE OF record ON records FOR EACH ROW
                WHEN (NEW.record_text IS NOT DISTINCT FROM OLD.record_text AND NEW.record <> OLD.record)
                EXECUTE FUNCTION forget_record_text();
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            -- Once a minute or so.
            IF attempts % 150 = 0 THEN
                RAISE WARNING 'a long read does not let the migration change the table of records: end that transaction '
                    '(pg_stat_activity shows it), or wait for its end';
            END IF;
            PERFORM pg_sleep(0.2);
        END;
    END LOOP;
END $$;
