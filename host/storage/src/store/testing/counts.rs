//! Compares the numbers of records and links with the records and links.

use super::{Db, StoreError, on};

/// The numbers that differ from a count of the rows, each with its collection and what it is too high by, and references that
/// their record has left behind. Reads the database at one
/// moment, so that it can be called while others write.
///
/// # Errors
/// When the database fails.
pub async fn wrong_counts(db: &Db) -> Result<Vec<String>, StoreError> {
    // On SQLite the row of no collection is 0 while no transaction counts.
    let records = "SELECT 'records of ' || x.collection_id || ': ' || sum(x.records) || ', hidden: ' || sum(x.hidden) FROM ( \
             SELECT collection_id, records, hidden FROM record_counts \
             UNION ALL SELECT r.collection_id, -1, CASE WHEN d.status <> 0 THEN -1 ELSE 0 END \
                 FROM records r LEFT JOIN dids d ON d.id = r.did_id \
         ) x GROUP BY x.collection_id HAVING sum(x.records) <> 0 OR sum(x.hidden) <> 0";
    let (path, paths) = match db {
        Db::Sqlite(_) => (
            "p.value",
            "json_each('[\"\"' || iif(f.paths <> '', ',\"' || replace(f.paths, ' ', '\",\"') || '\"', '') || ']') p",
        ),
        Db::Postgres(_) => (
            "p.path",
            "LATERAL unnest(array_append(string_to_array(nullif(f.paths, ''), ' '), '')) AS p (path)",
        ),
    };
    let links = format!(
        "SELECT 'links of ' || x.collection_id || ' to ' || x.target || ' at ' || x.path || ': ' || sum(x.links) || ', hidden: ' \
             || sum(x.hidden) FROM ( \
             SELECT target, collection_id, path, links, hidden FROM link_counts \
             UNION ALL SELECT f.target, f.collection_id, {path}, -1, CASE WHEN d.status <> 0 THEN -1 ELSE 0 END \
                 FROM link_counts c JOIN record_refs f ON f.target = c.target AND f.collection_id = c.collection_id \
                     LEFT JOIN dids d ON d.id = f.did_id CROSS JOIN {paths} WHERE c.path = '' \
         ) x GROUP BY x.collection_id, x.target, x.path HAVING sum(x.links) <> 0 OR sum(x.hidden) <> 0"
    );
    // An orphan is counted when it is there, and is not found by the record of its account.
    let orphans = "SELECT 'references of no record: ' || count(*) FROM record_refs f LEFT JOIN records r \
            ON r.id = f.record_id AND r.collection_id = f.collection_id WHERE r.id IS NULL HAVING count(*) > 0";
    let sql = format!("{records} UNION ALL {links} UNION ALL {orphans}");
    Ok(on!(db, reader, |pool| sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(pool).await)?)
}

/// Drops the triggers that count, as a later version will: then only what writers count is there.
///
/// # Errors
/// When the database fails.
pub async fn drop_counting_triggers(db: &Db) -> Result<(), StoreError> {
    let sqlite = "DROP TRIGGER records_counted_in; DROP TRIGGER records_counted_out; DROP TRIGGER record_refs_counted_out; \
                  DROP TRIGGER records_counted_of_account; DROP TRIGGER record_refs_counted_of_account";
    let postgres = "DO $$ DECLARE found record; BEGIN \
            FOR found IN SELECT tgname, tgrelid::regclass AS name FROM pg_trigger WHERE NOT tgisinternal AND \
                tgfoid IN ('count_records_in'::regproc, 'count_records_out'::regproc, 'count_records_of_accounts'::regproc, \
                    'count_links_in'::regproc, 'count_links_out'::regproc, 'count_links_of_accounts'::regproc) \
            LOOP EXECUTE format('DROP TRIGGER %I ON %s', found.tgname, found.name); END LOOP; END $$";
    match db {
        Db::Sqlite(db) => sqlx::raw_sql(sqlite).execute(&db.writer).await.map(drop)?,
        Db::Postgres(db) => sqlx::raw_sql(postgres).execute(&db.pool).await.map(drop)?,
    }
    Ok(())
}
