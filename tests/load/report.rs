//! Formats the Markdown tables of `docs/performance.md`.

use std::fmt;
use std::fs;

#[derive(Debug, Default)]
pub struct Row {
    pub case: String,
    pub per_second: Option<f64>,
    /// In milliseconds, like `p99`.
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub per_cpu_second: f64,
    /// The same with the database's CPU time added.
    pub with_database: Option<f64>,
    /// The bare hyper server with a body of the same size, per CPU-second.
    pub bare: Option<f64>,
    /// The same rows through sqlx alone, per CPU-second including the database's.
    pub sqlx: Option<f64>,
}

#[derive(Debug)]
pub struct Table {
    name: String,
    separate_database: bool,
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Table {
    pub fn new(name: &str, separate_database: bool) -> Self {
        Self { name: name.to_owned(), separate_database, rows: Vec::new(), notes: Vec::new() }
    }

    pub fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n", self.name)?;
        let with = if self.separate_database { " with the database's CPU |" } else { "" };
        let rule = if self.separate_database { "---:|" } else { "" };
        writeln!(
            f,
            "| Case | per CPU-second |{with} bare hyper | sqlx alone | of sqlx | per second | p50 ms | p99 ms |"
        )?;
        writeln!(f, "|---|---:|{rule}---:|---:|---:|---:|---:|---:|")?;
        for row in &self.rows {
            write!(f, "| {} | {} |", row.case, whole(Some(row.per_cpu_second)))?;
            if self.separate_database {
                write!(f, " {} |", whole(row.with_database))?;
            }
            let share = row.sqlx.map(|sqlx| {
                format!("{:.0}%", 100.0 * row.with_database.unwrap_or(row.per_cpu_second) / sqlx)
            });
            writeln!(
                f,
                " {} | {} | {} | {} | {} | {} |",
                whole(row.bare),
                whole(row.sqlx),
                share.unwrap_or_default(),
                whole(row.per_second),
                row.p50.map(|v| format!("{v:.2}")).unwrap_or_default(),
                row.p99.map(|v| format!("{v:.2}")).unwrap_or_default(),
            )?;
        }
        writeln!(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "- {note}"))
    }
}

fn whole(value: Option<f64>) -> String {
    value.map(|v| format!("{v:.0}")).unwrap_or_default()
}

/// The machine that the figures were measured on.
pub fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpu.lines().find(|l| l.starts_with(name)).unwrap_or_default();
        line.split_once(':').map_or("unknown", |(_, value)| value.trim()).to_owned()
    };
    let cores = cpu.lines().filter(|l| l.starts_with("processor")).count();
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("Measured on {cores} cores of {} ({build} build).", field("model name"))
}
