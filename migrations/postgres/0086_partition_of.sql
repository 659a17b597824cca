-- The number of the partition of a collection. Of a database in shards, whose tables are not partitions any more, it is another
-- function with this name (docs/adr/0172).
CREATE OR REPLACE FUNCTION partition_of(collection_id BIGINT) RETURNS INTEGER LANGUAGE sql STABLE AS $$
    SELECT n FROM generate_series(0, 15) AS n WHERE satisfies_hash_partition('records'::regclass, 16, n, collection_id)
$$;
