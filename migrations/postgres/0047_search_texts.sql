-- An index of searches also has the texts in order (docs/adr/0079). State 1, building, makes the server drop the old ones
-- and build them again, as after an interrupted build. Until then searches scan.
UPDATE field_indexes SET state = 1 WHERE kind = 2 AND state = 2;
