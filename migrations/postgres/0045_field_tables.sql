-- Changes only SQLite.
SELECT 1;
