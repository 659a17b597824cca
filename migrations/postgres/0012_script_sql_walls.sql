-- What the statements of scripts (db.raw) call that their guard has rewritten. The role that they run under is made by
-- `belvedere migrate` and at each start (host/src/store/script_sql/role.rs), because its name depends on the database.

-- Refuses a result that is too large. PostgreSQL itself would go up to a gigabyte. Texts and JSON may have what a record
-- may have, arrays less (some operators compare each element with each), numbers 600 digits (a product takes the square of
-- that). Like every function in plpgsql it looks whether the statement shall end, which others do not: each call of a
-- script's statement is within one. Scripts' connections have no search path but pg_catalog.
CREATE FUNCTION script_views.fits(value anyelement) RETURNS anyelement
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    bytes integer := pg_column_size(value);
BEGIN
    IF pg_typeof(value) = 'numeric'::regtype THEN
        IF value <> 'NaN' AND (abs(value) >= 1e600 OR scale(value) > 600) THEN
            RAISE program_limit_exceeded USING MESSAGE = 'a number has more than 600 digits';
        END IF;
    ELSIF bytes > 16384 AND (bytes > 1200000 OR pg_typeof(value)::text LIKE '%[]') THEN
        RAISE program_limit_exceeded USING MESSAGE = 'a value is too large: texts have 1 MiB at most, arrays 16 KiB';
    END IF;
    RETURN value;
END $$;

-- Refuses an argument that would make a function or an operator take long.
CREATE FUNCTION script_views.short(value text, most integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF octet_length(value) > most THEN
        RAISE program_limit_exceeded USING MESSAGE = format('an argument is too long: %s bytes at most', most);
    END IF;
    RETURN value;
END $$;

CREATE FUNCTION script_views.short(value jsonb, most integer) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF octet_length(value::text) > most THEN
        RAISE program_limit_exceeded USING MESSAGE = format('an argument is too long: %s bytes at most', most);
    END IF;
    RETURN value;
END $$;

CREATE FUNCTION script_views.short(value anyarray, most integer) RETURNS anyarray
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
BEGIN
    IF 8 * cardinality(value) > most THEN
        RAISE program_limit_exceeded USING MESSAGE = format('an argument is too long: %s elements at most', most / 8);
    END IF;
    RETURN value;
END $$;

-- The columns of the scripts' own tables among `names`, which stay as they are until the transaction ends.
CREATE FUNCTION script_views.own_columns(names text[]) RETURNS TABLE (table_name text, column_name text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    own text;
BEGIN
    FOR own IN
        SELECT c.relname FROM pg_catalog.pg_class c
        WHERE c.relnamespace = 'script_tables'::regnamespace AND c.relkind = 'r' AND c.relname = ANY (names) ORDER BY 1
    LOOP
        EXECUTE pg_catalog.format('LOCK TABLE script_tables.%I IN ACCESS SHARE MODE', own);
    END LOOP;
    RETURN QUERY
        SELECT c.relname::text, a.attname::text FROM pg_catalog.pg_class c
            JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'script_tables'::regnamespace AND c.relkind = 'r' AND c.relname = ANY (names)
        ORDER BY c.relname, a.attnum;
END $$;
