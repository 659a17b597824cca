//! Reads a list as one row, records from SQLite and answers for many targets from both databases.
//!
//! sqlx passes each row as a message from the connection's thread and copies each column to the heap: for a list of
//! twenty rows that costs more than finding them. So the statement concatenates the rows into one text, which is NULL without rows.
//! A row is its fields, each followed by a blank and without one inside, then the length of its record in bytes, a blank, and the
//! record. A record longer than [`INLINE_BYTES`] is left out: the next row follows the blank.

use bytes::Bytes;

use super::StoreError;
use super::select::INLINE_BYTES;

/// The rest of a packed list.
pub(super) struct Packed {
    text: Bytes,
    at: usize,
}

impl Packed {
    pub(super) fn new(text: String) -> Self {
        Self { text: Bytes::from(text), at: 0 }
    }

    pub(super) fn bytes_left(&self) -> usize {
        self.text.len() - self.at
    }

    /// Reads the next fields.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when `read` returns `None`.
    pub(super) fn read<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Result<T, StoreError> {
        read(self).ok_or_else(|| StoreError::Corrupt("a packed list of records is malformed".into()))
    }

    /// The rows up to the end of the text.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) fn rows<T>(
        &mut self,
        mut row: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        while self.at < self.text.len() {
            rows.push(self.read(&mut row)?);
        }
        Ok(rows)
    }

    /// The next field of a row. `None` when the text is malformed.
    pub(super) fn field(&mut self) -> Option<&str> {
        let end = self.at + memchr::memchr(b' ', &self.text[self.at..])?;
        let field = std::str::from_utf8(&self.text[self.at..end]).ok()?;
        self.at = end + 1;
        Some(field)
    }

    /// The length of the record, and the record unless it was left out. They are the end of a row.
    pub(super) fn record(&mut self) -> Option<(i64, Bytes)> {
        let length: usize = self.field()?.parse().ok()?;
        let here = if length <= INLINE_BYTES { length } else { 0 };
        let end = self.at.checked_add(here).filter(|end| *end <= self.text.len())?;
        let record = self.text.slice(self.at..end);
        self.at = end;
        Some((i64::try_from(length).ok()?, record))
    }
}
