//! The purposes of indexes of fields.

/// The purpose of an index of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Equality and ranges in `db.query`, newest first.
    Filter = 0,
    /// The sort of `db.query`.
    Sort = 1,
    /// `db.search`.
    Search = 2,
}

impl IndexKind {
    /// The name in the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Sort => "sort",
            Self::Search => "search",
        }
    }

    /// The name of the index with this id; on SQLite, of the table that serves as one.
    pub(in crate::store) fn index_name(self, id: i64) -> String {
        match self {
            Self::Filter | Self::Sort => format!("field_index_{id}"),
            Self::Search => format!("field_search_{id}"),
        }
    }

    pub(in crate::store) fn from_number(number: i64) -> Option<Self> {
        [Self::Filter, Self::Sort, Self::Search].into_iter().find(|kind| *kind as i64 == number)
    }
}
