//! Decompresses frames that a server compressed with zstd and a shared dictionary.

use bytes::Bytes;
use zstd::bulk::Decompressor;
use zstd::zstd_safe;

use super::MAX_MESSAGE_BYTES;

/// Initial size of the output buffer. It grows to the largest frame received, at most to about [`MAX_MESSAGE_BYTES`].
const FIRST_BUFFER: usize = 64 * 1024;

pub(in crate::indexing) struct Inflate {
    decompressor: Decompressor<'static>,
    buffer: Vec<u8>,
}

impl Inflate {
    /// # Errors
    /// When the dictionary can't be loaded.
    pub(in crate::indexing) fn new(dictionary: &[u8]) -> std::io::Result<Self> {
        Ok(Self {
            decompressor: Decompressor::with_dictionary(dictionary)?,
            buffer: Vec::with_capacity(FIRST_BUFFER),
        })
    }

    /// Bytes of the decompressed frame, as it states them. One that does not state them may have the most.
    pub(in crate::indexing) fn size(frame: &[u8]) -> usize {
        let stated = zstd_safe::get_frame_content_size(frame).ok().flatten();
        stated
            .and_then(|size| usize::try_from(size).ok())
            .map_or(MAX_MESSAGE_BYTES, |size| size.min(MAX_MESSAGE_BYTES))
    }

    /// `None` when the frame is not zstd, is damaged, or is larger than [`MAX_MESSAGE_BYTES`] when decompressed: a few
    /// bytes may expand to gigabytes.
    pub(in crate::indexing) fn inflate(&mut self, frame: &[u8]) -> Option<Bytes> {
        let size = zstd_safe::get_frame_content_size(frame).ok()?;
        self.buffer.clear();
        if let Some(size) = size {
            self.buffer.reserve(usize::try_from(size).ok().filter(|size| *size <= MAX_MESSAGE_BYTES)?);
        }
        loop {
            self.buffer.clear();
            match self.decompressor.decompress_to_buffer(frame, &mut self.buffer) {
                Ok(_) => return Some(Bytes::copy_from_slice(&self.buffer)),
                // The frame doesn't state its size, so the buffer may be too small. A damaged frame fails at the limit.
                Err(_) if size.is_none() && self.buffer.capacity() < MAX_MESSAGE_BYTES => {
                    self.buffer.reserve_exact((self.buffer.capacity() * 4).min(MAX_MESSAGE_BYTES));
                }
                Err(_) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DICTIONARY: &[u8] =
        b"a raw dictionary with the words did:plc: app.example.note createdAt record commit";

    fn compress(data: &[u8]) -> Vec<u8> {
        zstd::bulk::Compressor::with_dictionary(3, DICTIONARY).unwrap().compress(data).unwrap()
    }

    #[test]
    fn inflates_small_and_large_frames() {
        let mut inflate = Inflate::new(DICTIONARY).unwrap();
        for data in [b"{\"did\":\"did:plc:a\"}".to_vec(), vec![b'x'; 3_000_000], Vec::new()] {
            assert_eq!(inflate.inflate(&compress(&data)).as_deref(), Some(&data[..]));
        }
    }

    #[test]
    fn frames_without_a_size_are_inflated_too() {
        let mut encoder = zstd::stream::Encoder::with_dictionary(Vec::new(), 3, DICTIONARY).unwrap();
        encoder.include_contentsize(false).unwrap();
        std::io::Write::write_all(&mut encoder, &vec![b'y'; 1_000_000]).unwrap();
        let frame = encoder.finish().unwrap();
        assert_eq!(Inflate::new(DICTIONARY).unwrap().inflate(&frame).map(|b| b.len()), Some(1_000_000));
    }

    #[test]
    fn bombs_and_garbage_are_refused() {
        let mut inflate = Inflate::new(DICTIONARY).unwrap();
        assert_eq!(inflate.inflate(&compress(&vec![0; MAX_MESSAGE_BYTES + 1])), None);
        assert_eq!(inflate.inflate(b"not zstd"), None);
        assert_eq!(inflate.inflate(b""), None);
        assert_eq!(inflate.inflate(&compress(b"hello")[..6]), None);
        assert!(inflate.inflate(&compress(b"still works")).is_some());
    }
}
