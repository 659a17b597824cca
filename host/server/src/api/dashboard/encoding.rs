//! Chooses among the compressed copies of a file (RFC 9110 §12.5.3).

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// The encoding of a file's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Brotli,
    Gzip,
    Identity,
}

impl Encoding {
    /// The smallest copy first.
    const BY_SIZE: [Self; 2] = [Self::Brotli, Self::Gzip];

    /// The value of `content-encoding`.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Gzip => Some("gzip"),
            Self::Identity => None,
        }
    }

    /// The suffix of a copy's name.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
            Self::Identity => "",
        }
    }
}

/// The encodings that a client accepts, the best first. Ends with the file itself, which every client can read.
pub(super) fn accepted(headers: &HeaderMap) -> impl Iterator<Item = Encoding> {
    let texts = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let text = texts.collect::<Vec<_>>().join(",").to_ascii_lowercase();
    let weight = move |name: &str| {
        text.split(',').find_map(|item| {
            let (given, parameter) = item.split_once(';').unwrap_or((item, ""));
            let weight = parameter.trim().strip_prefix("q=").unwrap_or("1").trim().parse::<f32>();
            (given.trim() == name).then_some(weight.unwrap_or(0.0))
        })
    };
    let is_accepted = move |encoding: &Encoding| {
        let name = encoding.name().unwrap_or_default();
        weight(name).or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
    };
    Encoding::BY_SIZE.into_iter().filter(is_accepted).chain([Encoding::Identity])
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_smallest_copy_that_the_client_accepts_comes_first() {
        use Encoding::{Brotli, Gzip, Identity};
        let of = |value: &'static str| {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            accepted(&headers).collect::<Vec<_>>()
        };
        assert_eq!(of("gzip, deflate, br, zstd"), [Brotli, Gzip, Identity]);
        assert_eq!(of("GZIP"), [Gzip, Identity]);
        assert_eq!(of("br;q=0, gzip;q=0.5"), [Gzip, Identity]);
        assert_eq!(of("*"), [Brotli, Gzip, Identity]);
        assert_eq!(of("*;q=0.1, br; q=0"), [Gzip, Identity]);
        assert_eq!(of("identity"), [Identity]);
        assert_eq!(of("gzip;q=nonsense"), [Identity]);
        assert_eq!(accepted(&HeaderMap::new()).collect::<Vec<_>>(), [Identity]);
    }
}
