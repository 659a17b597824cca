//! Reads the arguments of `db.group`: by which values records are counted.

use serde_json::{Map, Value};

use super::path::Path;
use super::{Direction, PageSize, Query};

/// The maximum number of keys. The database computes each for every record that it counts.
pub const MAX_GROUP_KEYS: usize = 5;
/// The name of the number of records in a row.
pub const COUNT: &str = "count";
/// Longer names of keys are rejected: each is repeated in every row.
const MAX_NAME_BYTES: usize = 128;

/// Numbers of records by values of theirs.
#[derive(Clone, Debug)]
pub struct Group {
    /// The records to count. Its order, cursor and limit don't matter.
    pub query: Query,
    pub by: Vec<GroupKey>,
    /// Keys that are not in it follow it, ascending.
    pub order: Vec<(GroupOrder, Direction)>,
    /// Rows of the result, the first ones in the order.
    pub limit: u32,
}

/// A value by which records are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupKey {
    /// Its name in the rows.
    pub name: String,
    pub value: GroupValue,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupValue {
    Did,
    Collection,
    Rkey,
    IndexedAt(Option<Bucket>),
    /// A string by its first [`MAX_TEXT_CHARS`](super::sort::MAX_TEXT_CHARS) characters, a number, a boolean, or an array as
    /// a whole. An object counts as missing, and so does an array whose JSON is longer than [`MAX_LIST_CHARS`], or one that has
    /// arrays, objects with arrays or objects in them, fractions, or numbers beyond [`MAX_LIST_NUMBER`]: both databases write all
    /// others in the same way.
    Field(Path),
    /// The time in a field that has a datetime as text, such as `2026-11-26T10:00:00+01:00`, of the years 1000 to 9998.
    /// Other values count as missing.
    Time(Path, Bucket),
}

/// Arrays with a longer JSON text count as missing.
pub const MAX_LIST_CHARS: usize = 512;

/// Elements of an array whose JSON text is as short: each has a character and a comma.
pub const MAX_ELEMENTS: usize = MAX_LIST_CHARS / 2;

/// The largest number in an array: one of 15 digits is the same in a double.
pub const MAX_LIST_NUMBER: i64 = 999_999_999_999_999;

/// A span of time in UTC. Its label is a text, for all but weeks the beginning of its datetimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// `2026-11-26T10`
    Hour,
    /// `2026-11-26`
    Day,
    /// The week of ISO 8601, `2026-W48`
    Week,
    /// `2026-11`
    Month,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOrder {
    Count,
    /// The key with this number.
    Key(usize),
}

/// The number of records with the same values.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupRow {
    /// A value for each key, `None` if the records have none.
    pub keys: Vec<Option<Value>>,
    pub count: u64,
}

/// Error for invalid arguments. The text is for the script's author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    #[error("by takes 1 to {MAX_GROUP_KEYS} keys")]
    Keys,
    #[error("invalid field {0:?}: a path, did, collection, rkey or indexed_at")]
    Field(String),
    #[error("invalid bucket {0:?}: hour, day, week or month")]
    Bucket(String),
    #[error("{0} is not a time, so it takes no bucket")]
    NoTime(String),
    #[error("invalid name: 1 to {MAX_NAME_BYTES} bytes without U+0000")]
    Name,
    #[error("two columns are named {0:?}: rename a key with as")]
    SameName(String),
    #[error("invalid order {0:?}: count, or the name of a key")]
    Order(String),
}

impl Bucket {
    fn parse(text: &str) -> Result<Self, GroupError> {
        Ok(match text {
            "hour" => Self::Hour,
            "day" => Self::Day,
            "week" => Self::Week,
            "month" => Self::Month,
            _ => return Err(GroupError::Bucket(text.to_owned())),
        })
    }
}

impl GroupKey {
    /// Reads a key: a path, `did`, `collection`, `rkey` or `indexed_at`, with the bucket of a time. Its name is the field's
    /// unless it has another one.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn parse(field: &str, bucket: Option<&str>, name: Option<&str>) -> Result<Self, GroupError> {
        let bucket = bucket.map(Bucket::parse).transpose()?;
        let value = match (field, bucket) {
            ("indexed_at", bucket) => GroupValue::IndexedAt(bucket),
            ("did" | "collection" | "rkey", Some(_)) => return Err(GroupError::NoTime(field.to_owned())),
            ("did", None) => GroupValue::Did,
            ("collection", None) => GroupValue::Collection,
            ("rkey", None) => GroupValue::Rkey,
            (path, bucket) => {
                let path = Path::parse(path).map_err(|_| GroupError::Field(field.to_owned()))?;
                match bucket {
                    Some(bucket) => GroupValue::Time(path, bucket),
                    None => GroupValue::Field(path),
                }
            }
        };
        let name = name.unwrap_or(field);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
            return Err(GroupError::Name);
        }
        Ok(Self { name: name.to_owned(), value })
    }
}

impl Group {
    /// Counts the records of `query` by these keys. `order` has names of keys and `count`, each with its direction; without
    /// it the largest groups come first.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn new<'a>(
        query: Query,
        by: Vec<GroupKey>,
        order: impl IntoIterator<Item = (&'a str, Direction)>,
        limit: Option<i64>,
    ) -> Result<Self, GroupError> {
        if !(1..=MAX_GROUP_KEYS).contains(&by.len()) {
            return Err(GroupError::Keys);
        }
        for (n, key) in by.iter().enumerate() {
            if key.name == COUNT || by[..n].iter().any(|other| other.name == key.name) {
                return Err(GroupError::SameName(key.name.clone()));
            }
        }
        let mut ordered: Vec<(GroupOrder, Direction)> = Vec::new();
        for (name, direction) in order {
            let of = match by.iter().position(|key| key.name == name) {
                Some(n) => GroupOrder::Key(n),
                None if name == COUNT => GroupOrder::Count,
                None => return Err(GroupError::Order(name.to_owned())),
            };
            // A second mention orders nothing.
            if !ordered.iter().any(|(other, _)| *other == of) {
                ordered.push((of, direction));
            }
        }
        if ordered.is_empty() {
            ordered.push((GroupOrder::Count, Direction::Desc));
        }
        let rest = (0..by.len()).map(GroupOrder::Key);
        let rest: Vec<_> = rest.filter(|key| !ordered.iter().any(|(other, _)| other == key)).collect();
        ordered.extend(rest.into_iter().map(|key| (key, Direction::Asc)));
        Ok(Self { query, by, order: ordered, limit: PageSize::GROUPS.clamp(limit) })
    }

    /// A row as an object: its keys by their names, without those that have no value, and `count`.
    pub fn object(&self, row: GroupRow) -> Map<String, Value> {
        let named = self.by.iter().zip(row.keys);
        let mut object: Map<_, _> =
            named.filter_map(|(key, value)| Some((key.name.clone(), value?))).collect();
        object.insert(COUNT.to_owned(), row.count.into());
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belvedere_protocol::atproto::Nsid;

    fn query() -> Query {
        Query::of(Nsid::try_from("com.example.note").unwrap())
    }

    fn key(field: &str) -> GroupKey {
        GroupKey::parse(field, None, None).unwrap()
    }

    #[test]
    fn keys_are_columns_paths_and_times() {
        assert_eq!(key("a.b").value, GroupValue::Field(Path::parse("a.b").unwrap()));
        assert_eq!(key("did"), GroupKey { name: "did".into(), value: GroupValue::Did });
        let month = GroupKey::parse("at", Some("month"), Some("of")).unwrap();
        assert_eq!(month.value, GroupValue::Time(Path::parse("at").unwrap(), Bucket::Month));
        assert_eq!(month.name, "of");
        for (field, bucket, name, message) in [
            ("a b", None, None, "invalid field \"a b\": a path, did, collection, rkey or indexed_at"),
            ("at", Some("year"), None, "invalid bucket \"year\": hour, day, week or month"),
            ("did", Some("day"), None, "did is not a time, so it takes no bucket"),
            ("at", None, Some(""), "invalid name: 1 to 128 bytes without U+0000"),
            ("at", None, Some("a\0"), "invalid name: 1 to 128 bytes without U+0000"),
        ] {
            assert_eq!(GroupKey::parse(field, bucket, name).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn an_order_has_all_keys() {
        let of = |order: &[(&'static str, Direction)]| {
            Group::new(query(), vec![key("a"), key("b")], order.iter().copied(), None)
                .map(|group| group.order)
        };
        let (count, a, b) = (GroupOrder::Count, GroupOrder::Key(0), GroupOrder::Key(1));
        let (asc, desc) = (Direction::Asc, Direction::Desc);
        assert_eq!(of(&[]), Ok(vec![(count, desc), (a, asc), (b, asc)]));
        assert_eq!(of(&[("b", desc), ("b", asc)]), Ok(vec![(b, desc), (a, asc)]));
        assert_eq!(of(&[("c", desc)]), Err(GroupError::Order("c".into())));
    }

    #[test]
    fn names_are_distinct_and_keys_few() {
        let of = |keys: Vec<GroupKey>| Group::new(query(), keys, [], Some(5_000)).map(|group| group.limit);
        assert_eq!(of(vec![key("a")]), Ok(1_000));
        assert_eq!(of(vec![]), Err(GroupError::Keys));
        assert_eq!(of(vec![key("a"); 6]), Err(GroupError::Keys));
        assert_eq!(of(vec![key("a"), key("a")]), Err(GroupError::SameName("a".into())));
        assert_eq!(of(vec![key("count")]), Err(GroupError::SameName("count".into())));
    }

    #[test]
    fn a_row_has_only_the_keys_with_a_value() {
        let group = Group::new(query(), vec![key("a"), key("b.c")], [], None).unwrap();
        let row = GroupRow { keys: vec![None, Some("x".into())], count: 3 };
        assert_eq!(Value::from(group.object(row)), serde_json::json!({ "b.c": "x", "count": 3 }));
    }
}
