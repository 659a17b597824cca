//! Decides what a statement may access on SQLite. SQLite asks it about each table, column and function while it
//! prepares a statement, with the names that it has resolved itself, so the decision does not depend on [`super::guard`].
//!
//! A statement reads the own tables and our temporary views. Only a view of ours reads the attached index: SQLite says
//! which view or common table expression an access comes from. An expression can have the name of a view, so a view
//! reads only the tables that it shows, and none of them has a secret. No statement can create a view or a trigger.

use std::collections::HashSet;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::LazyLock;

use libsqlite3_sys as ffi;
use sqlx::SqliteConnection;

use super::super::Backend;
use super::guard::{self, CTE_PREFIX, OWN_PREFIX};
use super::{INDEX, LEAN_RECORDS, OWN_COLUMNS, SQLITE_LENGTH_CHECK};

/// The views with the tables of the index that they read.
const VIEWS: [(&str, &[&str]); 6] = [
    ("accounts", &["account_identities", "dids"]),
    ("records", &["collections", "dids", "invalid_records", "records"]),
    (LEAN_RECORDS, &["collections", "dids", "invalid_records", "records"]),
    ("record_refs", &["collections", "dids", "record_refs", "records"]),
    ("labels", &["labels"]),
    ("lexicons", &["lexicons"]),
];
/// Operators that are functions to SQLite, and the function that the guard adds.
const OPERATORS: [&str; 5] = ["->", "->>", "like", "glob", SQLITE_LENGTH_CHECK];
/// The functions and operators that any statement may call.
static CALLABLE: LazyLock<HashSet<&str>> =
    LazyLock::new(|| guard::callable(Backend::Sqlite).chain(OPERATORS).collect());
/// Functions with which SQLite itself changes the schema for an ALTER TABLE.
const SCHEMA_FUNCTIONS: [&str; 6] = [
    "printf",
    "sqlite_drop_column",
    "sqlite_rename_column",
    "sqlite_rename_quotefix",
    "sqlite_rename_table",
    "sqlite_rename_test",
];

/// The rights of the next statements on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Rights {
    /// Read the views and the own tables.
    Read,
    /// Also write rows of own tables.
    Write,
    /// Also create, change and drop own tables and their indexes.
    Define,
}

/// An access that SQLite asks about.
#[derive(Debug)]
struct Access<'a> {
    action: c_int,
    /// The table for most actions.
    first: &'a str,
    /// The column, function or index.
    second: &'a str,
    database: &'a str,
    /// The view, trigger or common table expression that the access comes from.
    within: &'a str,
}

fn is_own(name: &str) -> bool {
    name.starts_with(OWN_PREFIX)
}

impl Access<'_> {
    fn is_allowed(&self, rights: Rights) -> bool {
        let Self { action, first, second, database, .. } = *self;
        let (writes, defines) = (rights != Rights::Read, rights == Rights::Define);
        let is_main = database == "main";
        match action {
            ffi::SQLITE_SELECT | ffi::SQLITE_RECURSIVE => true,
            ffi::SQLITE_READ => self.may_read() || (defines && self.is_of_schema()),
            ffi::SQLITE_FUNCTION => {
                CALLABLE.contains(second)
                    || (second == "printf" && self.is_within_view())
                    || (defines && SCHEMA_FUNCTIONS.contains(&second))
            }
            ffi::SQLITE_PRAGMA => is_main && (first == "table_info" || (defines && first == "quick_check")),
            ffi::SQLITE_INSERT | ffi::SQLITE_UPDATE | ffi::SQLITE_DELETE => {
                (writes && is_main && is_own(first)) || (defines && self.is_of_schema())
            }
            ffi::SQLITE_CREATE_TABLE | ffi::SQLITE_DROP_TABLE => {
                defines && is_main && (is_own(first) || first == "sqlite_sequence")
            }
            ffi::SQLITE_CREATE_INDEX | ffi::SQLITE_DROP_INDEX => {
                // SQLite itself creates the index of a key or a UNIQUE; no statement can use such a name.
                let is_own_index = is_own(first) || first.starts_with("sqlite_autoindex_");
                defines && is_main && is_own_index && is_own(second)
            }
            ffi::SQLITE_REINDEX => defines && is_main && is_own(first),
            ffi::SQLITE_ALTER_TABLE => defines && first == "main" && is_own(second),
            _ => false,
        }
    }

    fn may_read(&self) -> bool {
        let Self { first: table, second: column, database, within, .. } = *self;
        let is_function = table == "json_each" || table == "json_tree";
        match database {
            "main" => {
                is_own(table)
                    || is_function
                    || (within == OWN_COLUMNS && ["sqlite_master", "pragma_table_info"].contains(&table))
            }
            "temp" => table == OWN_COLUMNS || VIEWS.iter().any(|(view, _)| *view == table),
            // A table of a view without columns, for example in `count(*)`, may come from the statement, after SQLite
            // has replaced the view by what it reads.
            INDEX => VIEWS
                .iter()
                .any(|(view, tables)| (*view == within || column.is_empty()) && tables.contains(&table)),
            // Without columns, too: a function, a common table expression as the guard names it, or a view that SQLite reads as
            // a subquery. It asks about what that reads.
            "" => {
                is_function
                    || table.starts_with(CTE_PREFIX)
                    || (column.is_empty() && VIEWS.iter().any(|(view, _)| *view == table))
            }
            _ => false,
        }
    }

    fn is_within_view(&self) -> bool {
        VIEWS.iter().any(|(view, _)| *view == self.within)
    }

    /// Whether it is what SQLite itself accesses to change the schema of the own tables.
    fn is_of_schema(&self) -> bool {
        match self.database {
            "main" => ["sqlite_master", "sqlite_schema", "sqlite_sequence", "pragma_quick_check"]
                .contains(&self.first),
            "temp" => self.first == "sqlite_temp_master",
            _ => false,
        }
    }
}

/// Sets the rights of the next statements of a connection.
pub(super) async fn allow(connection: &mut SqliteConnection, rights: Rights) -> Result<(), sqlx::Error> {
    let mut handle = connection.lock_handle().await?;
    install(handle.as_raw_handle().as_ptr(), rights);
    Ok(())
}

/// Sets the authorizer of a connection.
#[expect(unsafe_code, reason = "sqlx has no authorizer; the connection is open and locked")]
pub(in crate::store) fn install(database: *mut ffi::sqlite3, rights: Rights) {
    // The rights are the value of the pointer, so nothing has to outlive the connection. The call can't fail.
    let rights = ptr::without_provenance_mut::<c_void>(rights as usize);
    unsafe { ffi::sqlite3_set_authorizer(database, Some(authorize), rights) };
}

/// Removes the authorizer of a connection.
#[cfg(test)]
#[expect(unsafe_code, reason = "sqlx has no authorizer; the connection is open and locked")]
pub(super) async fn remove(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut handle = connection.lock_handle().await?;
    unsafe { ffi::sqlite3_set_authorizer(handle.as_raw_handle().as_ptr(), None, ptr::null_mut()) };
    Ok(())
}

#[expect(unsafe_code, reason = "SQLite calls it, with texts that live as long as the call")]
unsafe extern "C" fn authorize(
    rights: *mut c_void,
    action: c_int,
    first: *const c_char,
    second: *const c_char,
    database: *const c_char,
    within: *const c_char,
) -> c_int {
    let text = |text: *const c_char| {
        if text.is_null() {
            return "";
        }
        unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("\u{fffd}")
    };
    let rights = match rights.addr() {
        define if define == Rights::Define as usize => Rights::Define,
        write if write == Rights::Write as usize => Rights::Write,
        _ => Rights::Read,
    };
    let access = Access {
        action,
        first: text(first),
        second: text(second),
        database: text(database),
        within: text(within),
    };
    if access.is_allowed(rights) { ffi::SQLITE_OK } else { ffi::SQLITE_DENY }
}
