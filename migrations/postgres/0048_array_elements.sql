-- Elements of arrays are read by another expression, which indexes must have too. State 1, building, makes the server drop
-- the old ones and build them again, as after an interrupted build. Until then such queries scan.
UPDATE field_indexes SET state = 1 WHERE path LIKE '%[%' AND state = 2;
