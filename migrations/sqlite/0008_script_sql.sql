-- Nothing to do: on SQLite the scripts' own tables have a file of their own beside the database, and the views on the
-- index are temporary ones of the connections that use them (host/src/store/script_sql).
SELECT 1;
