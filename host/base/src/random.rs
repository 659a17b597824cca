//! The only source of randomness: the operating system's, or a seeded one for tests.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng, TryRng};

/// A source of random bytes. Cheap to clone; clones of a seeded source share its sequence.
#[derive(Clone, Default)]
pub struct Random(Option<Arc<Mutex<StdRng>>>);

impl Random {
    pub fn system() -> Self {
        Self(None)
    }

    /// A source that returns the same bytes for the same seed. Tests only: nothing made with it is secret.
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))))
    }

    /// Begins the sequence of a seed; a system source stays as it is.
    pub fn reseed(&self, seed: u64) {
        if let Some(seeded) = &self.0 {
            *seeded.lock().unwrap_or_else(PoisonError::into_inner) = StdRng::seed_from_u64(seed);
        }
    }

    /// Fills `out` with random bytes.
    ///
    /// # Panics
    /// When the operating system returns no randomness: going on would make guessable secrets.
    pub fn fill(&self, out: &mut [u8]) {
        match &self.0 {
            Some(seeded) => seeded.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(out),
            None => SysRng.try_fill_bytes(out).expect("the operating system provides randomness"),
        }
    }

    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    pub fn u64(&self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// `bytes` random bytes as lowercase hex.
    pub fn hex(&self, bytes: usize) -> String {
        let mut raw = vec![0; bytes];
        self.fill(&mut raw);
        hex::encode(raw)
    }

    /// A generator seeded from this source, fit for keys, for a caller that draws many small values.
    pub fn generator(&self) -> impl Rng + Send + use<> {
        StdRng::from_seed(self.bytes())
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> String {
        uuid::Builder::from_random_bytes(self.bytes()).into_uuid().to_string()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Random::seeded" } else { "Random::system" })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn seeded_repeats_and_system_does_not() {
        assert_eq!(Random::seeded(1).hex(16), Random::seeded(1).hex(16));
        let again = Random::seeded(7);
        again.reseed(1);
        assert_eq!(again.hex(16), Random::seeded(1).hex(16));
        assert_ne!(Random::system().hex(16), Random::system().hex(16));
        assert_eq!(Uuid::parse_str(&Random::seeded(1).uuid()).unwrap().get_version_num(), 4);
    }
}
