-- Nothing to do: SQLite has no partitions, and needs none for what they are for (docs/adr/0078).
SELECT 1;
