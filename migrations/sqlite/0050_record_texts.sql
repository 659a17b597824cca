-- Nothing to do: on SQLite a record is its text (docs/adr/0084).
SELECT 1;
