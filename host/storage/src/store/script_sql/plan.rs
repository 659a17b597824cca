//! The plans of SELECTs as rows: one for each step, indented below its parent.

use std::collections::HashMap;

use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;

use super::{Answer, Rows, ScriptSqlError, write_member};

/// The name of the column.
const PLAN: &str = "plan";

/// The rows of `EXPLAIN QUERY PLAN`, which name their parents.
pub(super) fn of_sqlite(steps: &[SqliteRow]) -> Result<Answer, ScriptSqlError> {
    let mut depths: HashMap<i64, usize> = HashMap::new();
    let lines = steps.iter().map(|step| {
        let (id, parent): (i64, i64) = (step.try_get("id")?, step.try_get("parent")?);
        let depth = depths.get(&parent).map_or(0, |depth| depth + 1);
        depths.insert(id, depth);
        Ok(format!("{}{}", "  ".repeat(depth), step.try_get::<&str, _>("detail")?))
    });
    of_lines(lines)
}

/// The lines of `EXPLAIN`, which are indented.
pub(super) fn of_postgres(lines: &[PgRow]) -> Result<Answer, ScriptSqlError> {
    of_lines(lines.iter().map(|line| Ok(line.try_get(0)?)))
}

fn of_lines(lines: impl Iterator<Item = Result<String, ScriptSqlError>>) -> Result<Answer, ScriptSqlError> {
    let mut rows = Rows { columns: vec![PLAN.to_owned()], ..Rows::default() };
    for line in lines {
        let line = line?;
        rows.add(|out| {
            out.push(b'{');
            write_member(out, PLAN, &line)?;
            out.push(b'}');
            Ok(())
        })?;
    }
    Ok(rows.finish(None))
}
