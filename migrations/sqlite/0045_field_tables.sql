-- Indexes of fields for filters and sorts are tables now (docs/adr/0079). State 1, building, makes the server drop the
-- old ones and build the tables, as after an interrupted build. Until then queries scan.
UPDATE field_indexes SET state = 1 WHERE kind IN (0, 1) AND state = 2;
