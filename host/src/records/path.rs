//! Paths into a record: `a.b[0].c`.

/// A validated path; `$`, quotes and other characters of SQL or JSONPath never get in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Key(String),
    Index(u32),
}

/// Not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a path into a record (a.b[0].c)")]
pub struct InvalidPath;

impl Path {
    pub fn parse(_text: &str) -> Result<Self, InvalidPath> {
        todo!()
    }

    pub fn steps(&self) -> &[Step] {
        &self.0
    }
}
