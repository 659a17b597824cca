//! Reads and writes the heads of CBOR items.

pub(super) const MAJOR_UNSIGNED: u8 = 0x00;
pub(super) const MAJOR_NEGATIVE: u8 = 0x20;
pub(super) const MAJOR_BYTES: u8 = 0x40;
pub(super) const MAJOR_TEXT: u8 = 0x60;
pub(super) const MAJOR_ARRAY: u8 = 0x80;
pub(super) const MAJOR_MAP: u8 = 0xa0;
const MAJOR_TAG: u8 = 0xc0;
/// Tag 42, the head of every link.
pub(super) const TAG_LINK: [u8; 2] = [0xd8, 0x2a];

/// The content of an encoded text string; `None` for any other item.
pub(super) fn text_of(value: &[u8]) -> Option<&str> {
    let first = *value.first()?;
    if first & 0xe0 != MAJOR_TEXT {
        return None;
    }
    let head = match first & 0x1f {
        24 => 2,
        25 => 3,
        26 => 5,
        27 => 9,
        _ => 1,
    };
    std::str::from_utf8(value.get(head..)?).ok()
}

/// Writes the shortest head of an item: its major type and its value or length.
#[inline]
pub(super) fn head(out: &mut Vec<u8>, major: u8, n: u64) {
    match n {
        0..24 => out.push(major | n as u8),
        24..0x100 => out.extend_from_slice(&[major | 0x18, n as u8]),
        0x100..0x1_0000 => {
            let n = (n as u16).to_be_bytes();
            out.extend_from_slice(&[major | 0x19, n[0], n[1]]);
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 0x1a);
            out.extend_from_slice(&(n as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 0x1b);
            out.extend_from_slice(&n.to_be_bytes());
        }
    }
}

/// One item; the members of an array or a map follow as items of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::atproto) enum Item<'a> {
    Integer(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// The binary CID after a zero byte.
    Link(&'a [u8]),
    Array(u64),
    /// Keys and values, alternating.
    Map(u64),
    Boolean(bool),
    Null,
}

#[cfg(test)]
thread_local! {
    static BYTES_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The bytes that this thread's readers have read.
#[cfg(test)]
pub(in crate::atproto) fn bytes_read() -> usize {
    BYTES_READ.get()
}

/// Reads what the encoder wrote.
#[derive(Clone, Copy, Debug)]
pub(in crate::atproto) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(in crate::atproto) fn new(cbor: &'a [u8]) -> Self {
        Self(cbor)
    }

    /// Bytes that were not read yet.
    pub(in crate::atproto) fn remaining(self) -> usize {
        self.0.len()
    }

    /// `None` at the end, and for an item that the data model does not have.
    #[inline]
    pub(in crate::atproto) fn next(&mut self) -> Option<Item<'a>> {
        #[cfg(test)]
        let before = self.0.len();
        let item = self.item();
        #[cfg(test)]
        BYTES_READ.set(BYTES_READ.get() + before - self.0.len());
        item
    }

    fn item(&mut self) -> Option<Item<'a>> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        match first {
            0xf4 => return Some(Item::Boolean(false)),
            0xf5 => return Some(Item::Boolean(true)),
            0xf6 => return Some(Item::Null),
            _ => {}
        }
        let n = self.argument(first & 0x1f)?;
        match first & 0xe0 {
            MAJOR_UNSIGNED => i64::try_from(n).ok().map(Item::Integer),
            MAJOR_NEGATIVE => i64::try_from(n).ok().map(|n| Item::Integer(-1 - n)),
            MAJOR_BYTES => self.take(n).map(Item::Bytes),
            MAJOR_TEXT => std::str::from_utf8(self.take(n)?).ok().map(Item::Text),
            MAJOR_ARRAY => Some(Item::Array(n)),
            MAJOR_MAP => Some(Item::Map(n)),
            // The content of a link is bytes, never another tag.
            MAJOR_TAG if n == 42 => {
                let (&first, rest) =
                    self.0.split_first().filter(|(first, _)| **first & 0xe0 == MAJOR_BYTES)?;
                self.0 = rest;
                let length = self.argument(first & 0x1f)?;
                self.take(length).map(Item::Link)
            }
            _ => None,
        }
    }

    /// The next item, which stays the next one.
    pub(in crate::atproto) fn peek(mut self) -> Option<Item<'a>> {
        self.next()
    }

    /// Passes over an item with all its members.
    pub(in crate::atproto) fn skip(&mut self) -> Option<()> {
        let mut left: u64 = 1;
        while left > 0 {
            left -= 1;
            left += match self.next()? {
                Item::Array(n) => n,
                Item::Map(n) => n.checked_mul(2)?,
                _ => 0,
            };
        }
        Some(())
    }

    fn argument(&mut self, short: u8) -> Option<u64> {
        let size = match short {
            0..24 => return Some(u64::from(short)),
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => return None,
        };
        let bytes = self.take(size)?;
        Some(bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(n).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}
