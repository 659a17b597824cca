//! The table of a large index: a row for each case, a column for each size.

use std::fmt;

#[derive(Debug)]
pub struct Table {
    name: String,
    sizes: Vec<usize>,
    /// Cases in the order in which they were first set, each with a figure for every size so far.
    rows: Vec<(String, Vec<String>)>,
    notes: Vec<String>,
}

impl Table {
    pub fn new(name: &str, sizes: &[usize]) -> Self {
        Self { name: name.to_owned(), sizes: sizes.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Sets the figure of a case at the next size.
    pub fn set(&mut self, case: &str, figure: String) {
        match self.rows.iter_mut().find(|(name, _)| name == case) {
            Some((_, figures)) => figures.push(figure),
            None => self.rows.push((case.to_owned(), vec![figure])),
        }
    }

    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "### {}\n", self.name)?;
        write!(f, "| Case |")?;
        self.sizes.iter().try_for_each(|size| write!(f, " {size} |"))?;
        writeln!(f, "\n|---|{}", "---:|".repeat(self.sizes.len()))?;
        for (case, figures) in &self.rows {
            write!(f, "| {case} |")?;
            for n in 0..self.sizes.len() {
                write!(f, " {} |", figures.get(n).map_or("", String::as_str))?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "- {note}"))
    }
}
