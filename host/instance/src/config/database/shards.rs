//! Shards of PostgreSQL.

use crate::config::{Problems, parse};

/// Whether a new database is to be distributed.
pub(super) fn wants_shards(value: Option<String>, has_postgres: bool, problems: &mut Problems) -> bool {
    const VARIABLE: &str = "DATABASE_SHARDS";
    match parse::text(value).as_deref() {
        None => false,
        Some("citus") if has_postgres => true,
        Some("citus") => {
            let text =
                "SQLite has no shards: set DATABASE_URL to the coordinator of a Citus cluster, or unset this";
            problems.add(VARIABLE, text.to_owned());
            false
        }
        Some(other) => {
            problems.add(VARIABLE, format!("{other:?} is not supported: write citus, or unset it"));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_need_postgres_and_a_known_engine() {
        let check = |value: &str, has_postgres| {
            let mut problems = Problems::default();
            let wants = wants_shards(Some(value.to_owned()), has_postgres, &mut problems);
            (wants, problems.into_result(()).is_ok())
        };
        assert_eq!(check("citus", true), (true, true));
        assert_eq!(check("", true), (false, true));
        assert_eq!(check("citus", false), (false, false));
        assert_eq!(check("vitess", true), (false, false));
    }
}
