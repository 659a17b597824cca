//! Encodes JSON text as canonical DAG-CBOR in one pass.
//!
//! Members are encoded in the order of the text and recorded by their offsets; when an object closes and its keys are
//! out of order, its members are rewritten in order. Nothing but the output is allocated per value. A value that the
//! data model can't express (a float, a malformed link) is recorded and the pass goes on, because the rest of the text
//! must still be checked and its references collected.

use super::super::json::{plain_len, skip_space, unescape};
use super::cbor::{MAJOR_ARRAY, MAJOR_MAP, MAJOR_NEGATIVE, MAJOR_TEXT, MAJOR_UNSIGNED, TAG_LINK, head};
use super::member::Member;
use super::refs::{Place, Refs};
use super::special::{self, Special};
use super::{InvalidRecord, MAX_DEPTH, Unencodable};

/// The largest integer that a double represents exactly. Up to here `1e3` and `5.0` count as integers.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// Whether a number written with a point or an exponent is the integer that it means.
pub(in crate::atproto) fn is_integer(f: f64) -> bool {
    f.fract() == 0.0 && f.abs() <= MAX_SAFE
}

pub(super) struct Encoded {
    pub(super) cbor: Vec<u8>,
    pub(super) refs: Refs,
    pub(super) unencodable: Option<Unencodable>,
    /// Whether numbers, bytes and links are written as a repo writes them.
    pub(super) is_canonical: bool,
}

pub(super) fn encode(json: &[u8]) -> Result<Encoded, InvalidRecord> {
    // One check of the whole text is faster than one for each string.
    std::str::from_utf8(json).map_err(|_| InvalidRecord::Malformed)?;
    let mut encoder = Encoder {
        text: json,
        at: skip_space(json, 0),
        out: Vec::with_capacity(json.len() + 16),
        members: Vec::with_capacity(16),
        scratch: Vec::new(),
        places: Vec::new(),
        refs: Refs::default(),
        unencodable: None,
        is_canonical: true,
        duplicate_key: false,
    };
    if encoder.peek() != Some(b'{') {
        // Distinguishes JSON values of other types from text that isn't JSON.
        let json = serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok();
        return Err(if json { InvalidRecord::NotObject } else { InvalidRecord::Malformed });
    }
    encoder.object(1)?;
    encoder.space();
    if encoder.at != json.len() {
        return Err(InvalidRecord::Malformed);
    }
    if encoder.duplicate_key {
        return Err(InvalidRecord::DuplicateKey);
    }
    if let Some(head) = encoder.out.first()
        && head & 0xe0 != MAJOR_MAP
    {
        // The whole record is {"$link": …} or {"$bytes": …}, which is encoded as a link or bytes instead of a map.
        encoder.unencodable = Some(if *head == TAG_LINK[0] { Unencodable::Link } else { Unencodable::Bytes });
    }
    let Encoder { out: cbor, refs, unencodable, is_canonical, .. } = encoder;
    Ok(Encoded { cbor, refs, unencodable, is_canonical })
}

struct Encoder<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// The members of all open objects, innermost last.
    members: Vec<Member>,
    scratch: Vec<u8>,
    /// The places of the value that is read, outermost first.
    places: Vec<Place>,
    refs: Refs,
    unencodable: Option<Unencodable>,
    /// See [`Encoded::is_canonical`].
    is_canonical: bool,
    /// Whether an object has a duplicate key. Reported only at the end of the text, because malformed JSON takes
    /// precedence.
    duplicate_key: bool,
}

impl Encoder<'_> {
    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        self.at = skip_space(self.text, self.at);
    }

    fn expect(&mut self, byte: u8) -> Result<(), InvalidRecord> {
        if self.peek() != Some(byte) {
            return Err(InvalidRecord::Malformed);
        }
        self.at += 1;
        Ok(())
    }

    fn unencodable(&mut self, why: Unencodable) {
        self.unencodable.get_or_insert(why);
    }

    fn value(&mut self, depth: usize) -> Result<(), InvalidRecord> {
        match self.peek() {
            Some(b'"') => {
                let text = self.string()?;
                self.refs.note(&self.out, text, &self.places);
                Ok(())
            }
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b't') => self.literal(b"true", 0xf5),
            Some(b'f') => self.literal(b"false", 0xf4),
            Some(b'n') => self.literal(b"null", 0xf6),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(InvalidRecord::Malformed),
        }
    }

    fn literal(&mut self, word: &[u8], cbor: u8) -> Result<(), InvalidRecord> {
        if !self.text[self.at..].starts_with(word) {
            return Err(InvalidRecord::Malformed);
        }
        self.at += word.len();
        self.out.push(cbor);
        Ok(())
    }

    /// Encodes the string at the current position. Returns the offset of its text in the output.
    fn string(&mut self) -> Result<usize, InvalidRecord> {
        self.expect(b'"')?;
        let plain = plain_len(self.text, self.at);
        let end = self.at + plain;
        if self.text.get(end) == Some(&b'"') {
            head(&mut self.out, MAJOR_TEXT, plain as u64);
            let text = self.out.len();
            self.out.extend_from_slice(&self.text[self.at..end]);
            self.at = end + 1;
            return Ok(text);
        }
        let mut plain = std::mem::take(&mut self.scratch);
        plain.clear();
        self.at = unescape(self.text, self.at, &mut plain).ok_or(InvalidRecord::Malformed)?;
        head(&mut self.out, MAJOR_TEXT, plain.len() as u64);
        let text = self.out.len();
        self.out.extend_from_slice(&plain);
        self.scratch = plain;
        Ok(text)
    }

    fn number(&mut self) -> Result<(), InvalidRecord> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative);
        let digits = self.digits()?;
        if digits.len() > 1 && digits[0] == b'0' {
            return Err(InvalidRecord::Malformed);
        }
        let magnitude =
            digits.iter().try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')));
        let mut integral = true;
        if self.peek() == Some(b'.') {
            integral = false;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            integral = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        let n = match magnitude {
            Some(n) if integral => Some((negative && n > 0, n)),
            _ => {
                let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
                let f = text.parse::<f64>().ok().filter(|f| f.is_finite());
                let f = f.ok_or(InvalidRecord::NumberOutOfRange)?;
                (!integral && is_integer(f)).then_some((f < 0.0, f.abs() as u64))
            }
        };
        self.is_canonical &= integral && !(negative && magnitude == Some(0));
        match n {
            Some((false, n)) if i64::try_from(n).is_ok() => head(&mut self.out, MAJOR_UNSIGNED, n),
            Some((true, n)) if n <= 1 << 63 => head(&mut self.out, MAJOR_NEGATIVE, n - 1),
            _ => {
                self.unencodable(Unencodable::Number);
                self.out.push(0xf6);
            }
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<&[u8], InvalidRecord> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(InvalidRecord::Malformed) } else { Ok(&self.text[start..self.at]) }
    }

    fn array(&mut self, depth: usize) -> Result<(), InvalidRecord> {
        if depth > MAX_DEPTH {
            return Err(InvalidRecord::TooDeep);
        }
        self.at += 1;
        let start = self.out.len();
        self.out.push(MAJOR_ARRAY);
        let mut count = 0;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        self.places.push(Place::Item);
        loop {
            self.space();
            self.value(depth)?;
            count += 1;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(InvalidRecord::Malformed),
            }
        }
        self.at += 1;
        self.places.pop();
        self.widen(start, MAJOR_ARRAY, count);
        Ok(())
    }

    /// Replaces the one-byte head at `start` with the head for `count` items.
    fn widen(&mut self, start: usize, major: u8, count: u64) {
        if count < 24 {
            self.out[start] = major | count as u8;
            return;
        }
        self.scratch.clear();
        head(&mut self.scratch, major, count);
        self.out.splice(start..=start, self.scratch.iter().copied());
    }

    fn object(&mut self, depth: usize) -> Result<(), InvalidRecord> {
        if depth > MAX_DEPTH {
            return Err(InvalidRecord::TooDeep);
        }
        self.at += 1;
        let start = self.out.len();
        self.out.push(MAJOR_MAP);
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let base = self.members.len();
        let mut special = false;
        loop {
            self.space();
            let member = self.out.len();
            let key = self.string()?;
            special |= self.out.get(key) == Some(&b'$');
            self.places.push(Place::Member { start: key as u32, end: self.out.len() as u32 });
            self.space();
            self.expect(b':')?;
            self.space();
            let value = self.out.len();
            self.value(depth)?;
            self.places.pop();
            let end = self.out.len();
            self.members.push(Member {
                start: member as u32,
                key: key as u32,
                value: value as u32,
                end: end as u32,
            });
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(InvalidRecord::Malformed),
            }
        }
        self.at += 1;
        if !(special && self.special(start, base)) {
            self.order(start, base);
        }
        self.members.truncate(base);
        Ok(())
    }

    /// Handles an object with a key that begins with `$`. Returns true if it was a link or bytes and has been encoded.
    fn special(&mut self, start: usize, base: usize) -> bool {
        let Special { encoded, wrong, is_canonical } = special::read(&self.out, &self.members[base..]);
        if let Some(why) = wrong {
            self.unencodable(why);
        }
        self.is_canonical &= is_canonical;
        let Some(encoded) = encoded else { return false };
        self.out.truncate(start);
        self.out.extend_from_slice(&encoded);
        true
    }

    /// Sorts the members of the object at `start` into canonical order (shorter keys first, then bytewise) and writes
    /// its head.
    fn order(&mut self, start: usize, base: usize) {
        let Self { out, members, scratch, duplicate_key, .. } = self;
        let members = &mut members[base..];
        let compare = |a: &Member, b: &Member| {
            let (a, b) = (a.key(out), b.key(out));
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        };
        let count = members.len() as u64;
        if members.windows(2).all(|pair| compare(&pair[0], &pair[1]).is_lt()) {
            self.widen(start, MAJOR_MAP, count);
            return;
        }
        members.sort_unstable_by(compare);
        if members.windows(2).any(|pair| pair[0].key(out) == pair[1].key(out)) {
            // DAG-CBOR maps have unique keys, so this text is not a record. JSON parsers disagree about its value.
            *duplicate_key = true;
        }
        scratch.clear();
        scratch.extend_from_slice(&out[start..]);
        out.truncate(start);
        head(out, MAJOR_MAP, count);
        for member in members {
            out.extend_from_slice(&scratch[member.start as usize - start..member.end as usize - start]);
        }
    }
}
