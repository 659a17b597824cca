//! Reads and writes the heads of CBOR items.

pub(super) const MAJOR_UNSIGNED: u8 = 0x00;
pub(super) const MAJOR_NEGATIVE: u8 = 0x20;
pub(super) const MAJOR_BYTES: u8 = 0x40;
pub(super) const MAJOR_TEXT: u8 = 0x60;
pub(super) const MAJOR_ARRAY: u8 = 0x80;
pub(super) const MAJOR_MAP: u8 = 0xa0;
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
