//! The sizes of a database in shards, which are on its nodes. A node that does not answer is left out.

/// Bytes of the database on all servers.
pub(in crate::store) const TOTAL: &str = "SELECT coalesce(sum(result::bigint), 0)::bigint \
    FROM run_command_on_all_nodes('SELECT pg_database_size(current_database())') WHERE success";

/// As on one PostgreSQL: the shards of a table are added up like partitions, and so are its copies.
pub(in crate::store) const TABLES: &str = "SELECT name, sum(rows)::bigint AS rows, sum(bytes)::bigint AS bytes, \
        sum(index_bytes)::bigint AS index_bytes FROM ( \
        SELECT c.relname::text AS name, nullif(greatest(c.reltuples, -1), -1) AS rows, pg_table_size(c.oid) AS bytes, \
            pg_indexes_size(c.oid) AS index_bytes FROM pg_class c \
        WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace \
            AND NOT EXISTS (SELECT 1 FROM pg_dist_partition d WHERE d.logicalrelid = c.oid) \
        UNION ALL \
        SELECT regexp_replace(t.name, '_[0-9]{2}$', ''), t.rows, t.bytes, t.index_bytes \
        FROM run_command_on_all_nodes($on_node$ SELECT json_agg(f) FROM ( \
                SELECT d.relname AS name, nullif(greatest(c.reltuples, -1), -1) AS rows, pg_table_size(c.oid) AS bytes, \
                    pg_indexes_size(c.oid) AS index_bytes \
                FROM pg_dist_local_group g JOIN pg_dist_placement p ON p.groupid = g.groupid \
                    JOIN pg_dist_shard s ON s.shardid = p.shardid JOIN pg_class d ON d.oid = s.logicalrelid \
                    JOIN pg_class c ON c.relname = format('%s_%s', d.relname, s.shardid) AND c.relnamespace = d.relnamespace) f \
            $on_node$) r, json_to_recordset(r.result::json) AS t (name text, rows float, bytes bigint, index_bytes bigint) \
        WHERE r.success) of_all \
    GROUP BY name ORDER BY sum(bytes) + sum(index_bytes) DESC, name LIMIT $1";
