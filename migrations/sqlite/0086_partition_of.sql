-- Nothing to do: SQLite has no partitions (docs/adr/0172).
SELECT 1;
