//! Names the partitions of the tables that have the records of a collection, on PostgreSQL (ADR 78).
//!
//! A plan that PostgreSQL keeps for a partitioned table locks all of its partitions before it reads the one that it needs.
//! So frequent statements name the partition of their collection instead of the table. Lists and queries get its name from
//! their [`Select`](super::select::Select); the texts of other statements are kept by [`PerPartition`].
//!
//! In a database that is distributed over several nodes (ADR 172) each partition is a shard, and everything that statements read or
//! write together with its records is divided like them.

use std::sync::OnceLock;

use sqlx::PgExecutor;

use super::lost::UNDEFINED_TABLE;

/// The partitions of each table; the migration that creates them has the same number.
pub(super) const COUNT: u8 = 16;

/// The numbers of shards are less. The first [`COUNT`] are those of partitions; a shard that is split gives way to two new ones.
pub(super) const SHARD_NUMBERS: u8 = 100;

/// Tables that are divided by collection in a database in shards, in the order of [`Tables::all`].
pub(super) const DIVIDED: [&str; 5] =
    ["records", "record_refs", "invalid_records", "tombstones", "link_counts"];

/// The database names a partition that this server does not know.
#[derive(Debug, thiserror::Error)]
#[error("records has a partition {0}")]
pub(super) struct UnknownPartition(i32);

/// The partition of a collection in all of its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Partition {
    /// The whole tables: on SQLite they have no partitions.
    Whole,
    /// A partition of `records` and `record_refs`.
    Numbered(u8),
    /// The same of a database in shards.
    Shard(u8),
}

impl Partition {
    /// The partition with the number that [`partition_number`] has found.
    pub(super) fn of_number(number: i32, in_shards: bool) -> Result<Self, UnknownPartition> {
        match u8::try_from(number) {
            Ok(number) if in_shards && number < SHARD_NUMBERS => Ok(Self::Shard(number)),
            Ok(number) if !in_shards && number < COUNT => Ok(Self::Numbered(number)),
            _ => Err(UnknownPartition(number)),
        }
    }

    /// The names of its tables.
    pub(super) fn tables(self) -> &'static Tables {
        static NAMES: PerPartition<Tables> = PerPartition::new(Tables::clone);
        NAMES.of(self)
    }

    /// The table that has the collection's records.
    pub(super) fn records(self) -> &'static str {
        &self.tables().records
    }

    /// The table that has the references of the collection's records.
    pub(super) fn record_refs(self) -> &'static str {
        &self.tables().record_refs
    }

    /// The part of the tables that have partitions in shards only.
    pub(super) fn of_other_tables(self) -> Self {
        match self {
            Self::Numbered(_) => Self::Whole,
            other => other,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Whole => 0,
            Self::Numbered(number) => usize::from(number) + 1,
            Self::Shard(number) => usize::from(number) + 1 + usize::from(COUNT),
        }
    }
}

/// Whether a statement failed because its shard was split, and this process does not know yet.
pub(super) fn is_of_split(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(database) = error else { return false };
    database.code().as_deref() == Some(UNDEFINED_TABLE) && names_shard(database.message())
}

/// Whether a message names a table of a shard: by its own name, or that of the table on the node, which has Citus's number behind it.
pub(super) fn names_shard(message: &str) -> bool {
    let is_shard = |after: &str| matches!(after.as_bytes(), [b'_', b'0'..=b'9', b'0'..=b'9', rest @ ..] if !matches!(rest, [b'0'..=b'9', ..]));
    let names =
        |table: &str| message.match_indices(table).any(|(at, _)| is_shard(&message[at + table.len()..]));
    DIVIDED.into_iter().any(names)
}

/// The shards have tombstones of their own, which partitions don't.
const NUMBERS: &str = "SELECT substr(relname, 12)::int FROM pg_class \
     WHERE relnamespace = 'public'::regnamespace AND relname ~ '^tombstones_[0-9]{2}$' ORDER BY 1";

/// The numbers of the shards, in order; none for a database that is not in shards.
pub(super) async fn shard_numbers(db: impl PgExecutor<'_>) -> Result<Vec<u8>, sqlx::Error> {
    let numbers: Vec<i32> = sqlx::query_scalar(NUMBERS).fetch_all(db).await?;
    Ok(numbers.into_iter().filter_map(|number| u8::try_from(number).ok()).collect())
}

/// An expression for the number of the partition of the collection whose id `$id` is, on PostgreSQL.
macro_rules! partition_number {
    ($id:literal) => {
        concat!("partition_of(", $id, ")")
    };
}
pub(super) use partition_number;

/// The names of the tables that have the rows of a partition.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub(super) records: String,
    pub(super) record_refs: String,
    /// The reasons why records are invalid.
    pub(super) invalid_records: String,
    pub(super) tombstones: String,
    pub(super) link_counts: String,
}

impl Tables {
    fn of(partition: Partition) -> Self {
        let name = |table: &str, is_divided: bool| match partition {
            Partition::Numbered(number) | Partition::Shard(number) if is_divided => {
                format!("{table}_{number:02}")
            }
            _ => table.to_owned(),
        };
        let in_shards = matches!(partition, Partition::Shard(_));
        Self {
            records: name("records", true),
            record_refs: name("record_refs", true),
            invalid_records: name("invalid_records", in_shards),
            tombstones: name("tombstones", in_shards),
            link_counts: name("link_counts", in_shards),
        }
    }
}

impl Tables {
    /// All of them, the records first.
    pub(super) fn all(&self) -> [&str; 5] {
        [&self.records, &self.record_refs, &self.invalid_records, &self.tombstones, &self.link_counts]
    }

    pub(super) fn in_shards(&self) -> bool {
        self.tombstones != "tombstones"
    }

    /// The condition that the record `r` is valid, after an AND. Not EXISTS, which PostgreSQL may turn into a join that loses the
    /// order of the rows, and not IS NULL, which it expects of few.
    pub(super) fn and_valid(&self) -> String {
        format!(" AND (SELECT 1 FROM {} i WHERE i.record_id = r.id) IS DISTINCT FROM 1", self.invalid_records)
    }

    /// The condition that writers count the target of the reference `f`, in statements of PostgreSQL that write. Not `EXISTS`, which
    /// might become a join that reads all counts.
    pub(super) fn is_counted_postgres(&self) -> String {
        format!(
            "(SELECT TRUE FROM {} c WHERE c.target = f.target AND c.collection_id = f.collection_id AND c.path = '')",
            self.link_counts
        )
    }
}

/// The whole tables, the partitions and the shards.
const ALL: usize = 1 + COUNT as usize + SHARD_NUMBERS as usize;

/// Statements for each partition, written on first use.
#[derive(Debug)]
pub(super) struct PerPartition<T: Texts> {
    write: fn(&Tables) -> T,
    kept: [OnceLock<T::Kept>; ALL],
}

impl<T: Texts> PerPartition<T> {
    pub(super) const fn new(write: fn(&Tables) -> T) -> Self {
        Self { write, kept: [const { OnceLock::new() }; ALL] }
    }

    pub(super) fn of(&'static self, partition: Partition) -> &'static T::Kept {
        self.kept[partition.index()].get_or_init(|| (self.write)(&Tables::of(partition)).keep())
    }
}

/// A text, an array of texts, or the names, that live as long as the process, like the static that they are written for.
pub(super) trait Texts {
    type Kept;

    fn keep(self) -> Self::Kept;
}

impl Texts for String {
    type Kept = &'static str;

    fn keep(self) -> &'static str {
        self.leak()
    }
}

impl Texts for Tables {
    type Kept = Self;

    fn keep(self) -> Self {
        self
    }
}

impl<const N: usize> Texts for [String; N] {
    type Kept = [&'static str; N];

    fn keep(self) -> [&'static str; N] {
        self.map(Texts::keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_written_for_each_partition() {
        static JOIN: PerPartition<[String; 2]> =
            PerPartition::new(|Tables { records, record_refs, tombstones, .. }| {
                [format!("FROM {records} r JOIN {record_refs} f"), format!("{records}, {tombstones}")]
            });
        let of = |number, in_shards| JOIN.of(Partition::of_number(number, in_shards).unwrap());
        assert_eq!(of(3, false), &["FROM records_03 r JOIN record_refs_03 f", "records_03, tombstones"]);
        assert_eq!(of(15, true)[1], "records_15, tombstones_15");
        assert_eq!(JOIN.of(Partition::Whole)[0], "FROM records r JOIN record_refs f");
        assert!(std::ptr::eq(of(3, false), of(3, false)), "the texts are made once");
        assert_eq!(Partition::of_number(3, false).unwrap().records(), "records_03");
    }

    #[test]
    fn tables_of_shards_are_recognised() {
        for message in [
            r#"relation "records_03" does not exist"#,
            r#"relation "public.record_refs_16_102009" does not exist"#,
            "Relation »tombstones_99« existiert nicht",
        ] {
            assert!(names_shard(message), "{message}");
        }
        for message in [
            r#"relation "records" does not exist"#,
            "records_1",
            "records_100",
            "record_counts_99",
            "records_x1",
        ] {
            assert!(!names_shard(message), "{message}");
        }
    }

    #[test]
    fn each_has_a_place_of_its_own() {
        assert!([-1, 16, 255, 256].into_iter().all(|number| Partition::of_number(number, false).is_err()));
        assert!([-1, 100, 256].into_iter().all(|number| Partition::of_number(number, true).is_err()));
        let numbered = (0..COUNT).map(Partition::Numbered);
        let shards = (0..SHARD_NUMBERS).map(Partition::Shard);
        let all = std::iter::once(Partition::Whole).chain(numbered).chain(shards);
        assert!(all.map(Partition::index).eq(0..ALL));
    }
}
