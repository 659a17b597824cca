//! Members of the objects that are being encoded.

/// One member of an open object, by offsets into the output.
#[derive(Clone, Copy)]
pub(super) struct Member {
    /// Offset of the key's head.
    pub(super) start: u32,
    /// Offset of the key's text.
    pub(super) key: u32,
    /// Offset of the value, which ends at `end`.
    pub(super) value: u32,
    pub(super) end: u32,
}

impl Member {
    pub(super) fn key<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        &out[self.key as usize..self.value as usize]
    }

    pub(super) fn value<'a>(&self, out: &'a [u8]) -> &'a [u8] {
        &out[self.value as usize..self.end as usize]
    }
}
