//! Makes and checks nonces for DPoP proofs (RFC 9449 §9), if the operator requires them. Nothing is stored: a nonce is
//! a MAC of its time period, so all hosts with the same secret accept each other's.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use belvedere_base::clock::Timestamp;
use belvedere_protocol::crypto::{MacKey, ct_eq};

/// Seconds after which the nonce changes. The previous one is accepted too, so that no client fails at the change.
const PERIOD_SECONDS: i64 = 120;

/// Bytes of the MAC in a nonce: too many to guess.
const NONCE_BYTES: usize = 16;

#[derive(Clone, Debug)]
pub struct Nonces(MacKey);

impl Nonces {
    /// `secret` is the instance's session secret.
    pub fn new(secret: &str) -> Self {
        Self(MacKey::derive(secret.as_bytes(), "dpop nonce"))
    }

    pub fn current(&self, now: Timestamp) -> String {
        self.of_period(now.as_seconds().div_euclid(PERIOD_SECONDS))
    }

    /// Whether a nonce is the current or the previous one.
    pub fn accept(&self, nonce: &str, now: Timestamp) -> bool {
        let period = now.as_seconds().div_euclid(PERIOD_SECONDS);
        [period, period - 1].iter().any(|period| ct_eq(self.of_period(*period).as_bytes(), nonce.as_bytes()))
    }

    fn of_period(&self, period: i64) -> String {
        URL_SAFE_NO_PAD.encode(&self.0.tag(&period.to_be_bytes())[..NONCE_BYTES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_valid_for_its_period_and_the_next() {
        let (nonces, start) = (Nonces::new("secret"), Timestamp(0).plus_seconds(PERIOD_SECONDS * 1_000_000));
        let nonce = nonces.current(start);
        let after = |seconds| nonces.accept(&nonce, start.plus_seconds(seconds));
        assert!(after(0) && after(PERIOD_SECONDS) && after(2 * PERIOD_SECONDS - 1));
        assert!(!after(2 * PERIOD_SECONDS) && !after(-1));
        assert!(!nonces.accept("", start) && !Nonces::new("other").accept(&nonce, start));
    }
}
