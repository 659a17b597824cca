-- Nothing to do: on SQLite the walls around scripts' SQL are those of the connections (host/src/store/script_sql).
SELECT 1;
