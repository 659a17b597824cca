//! The role of scripts' SQL in PostgreSQL.

use crate::config::{Problems, Secret, parse};

/// The connection of scripts' SQL to PostgreSQL.
#[derive(Clone, Debug)]
pub enum ScriptSql {
    /// A role that the server creates.
    OwnRole,
    /// The role that this URL names.
    Address(Secret<String>),
    /// The server's own role.
    Guarded,
}

pub(super) fn script_sql(how: Option<String>, url: Option<String>, problems: &mut Problems) -> ScriptSql {
    let url = parse::text(url);
    match (parse::text(how).as_deref(), url) {
        (Some("guarded"), None) => ScriptSql::Guarded,
        (Some("guarded"), Some(_)) => {
            problems.add(
                "SCRIPT_SQL",
                "guarded can't be combined with SCRIPT_DATABASE_URL: remove one of them".to_owned(),
            );
            ScriptSql::Guarded
        }
        (None | Some("role"), None) => ScriptSql::OwnRole,
        (None | Some("role"), Some(url)) => {
            let names_a_role = url::Url::parse(&url).is_ok_and(|url| {
                ["postgres", "postgresql"].contains(&url.scheme()) && !url.username().is_empty()
            });
            if !names_a_role {
                problems.add("SCRIPT_DATABASE_URL", "write postgres://USER:PASSWORD@HOST".to_owned());
            }
            ScriptSql::Address(Secret::new(url))
        }
        (Some(_), _) => {
            problems.add("SCRIPT_SQL", "write role or guarded".to_owned());
            ScriptSql::OwnRole
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_use_a_separate_role_by_default() {
        let check = |how: Option<&str>, url: Option<&str>| {
            let mut problems = Problems::default();
            let found = script_sql(how.map(str::to_owned), url.map(str::to_owned), &mut problems);
            problems.into_result(found).ok()
        };
        assert!(matches!(check(None, None), Some(ScriptSql::OwnRole)));
        assert!(matches!(check(Some("guarded"), None), Some(ScriptSql::Guarded)));
        assert!(matches!(check(None, Some("postgres://lua:x@db")), Some(ScriptSql::Address(_))));
        assert!(check(Some("off"), None).is_none());
        assert!(check(None, Some("postgres://db")).is_none());
        assert!(check(Some("guarded"), Some("postgres://lua@db")).is_none());
    }
}
