//! Parses the `Authorization` header, by scheme.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::secrets::is_admin_key;

/// The credential that a caller presents. Each surface decides which of these it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential<'a> {
    /// `Bearer` with the prefix of an admin API key.
    AdminKey(&'a str),
    /// Any other `Bearer`: a service token, or (on space routes) a space credential.
    Bearer(&'a str),
    /// `DPoP`: an access token bound to the key of the proof beside it.
    Dpop(&'a str),
    /// `Atproto-Space`: a space credential with an HTTP message signature.
    Space(&'a str),
    /// An unknown scheme, more than one header, or a header that is not text. Never falls back to a cookie.
    Unknown,
    /// No header.
    Absent,
}

impl<'a> Credential<'a> {
    pub fn of(headers: &'a HeaderMap) -> Self {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else { return Self::Absent };
        // With two credentials it is ambiguous which one is meant.
        if values.next().is_some() {
            return Self::Unknown;
        }
        value.to_str().map_or(Self::Unknown, Self::parse)
    }

    /// Parses the value of one header.
    pub(super) fn parse(value: &'a str) -> Self {
        let Some((scheme, token)) = value.trim().split_once(' ') else { return Self::Unknown };
        let token = token.trim();
        match scheme {
            _ if token.is_empty() => Self::Unknown,
            s if s.eq_ignore_ascii_case("bearer") && is_admin_key(token) => Self::AdminKey(token),
            s if s.eq_ignore_ascii_case("bearer") => Self::Bearer(token),
            s if s.eq_ignore_ascii_case("dpop") => Self::Dpop(token),
            s if s.eq_ignore_ascii_case("atproto-space") => Self::Space(token),
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn distinguishes_schemes() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(text));
            Credential::of(Box::leak(Box::new(headers)))
        };
        assert_eq!(of("Bearer bva_00"), Credential::AdminKey("bva_00"));
        assert_eq!(of("Bearer hv_00"), Credential::AdminKey("hv_00"));
        assert_eq!(of("bearer  a.b.c"), Credential::Bearer("a.b.c"));
        assert_eq!(of("DPoP tok"), Credential::Dpop("tok"));
        assert_eq!(of("Atproto-Space tok"), Credential::Space("tok"));
        for unknown in ["Basic dTpw", "Bearer", "Bearer ", "x", ""] {
            assert_eq!(of(unknown), Credential::Unknown, "{unknown}");
        }
        assert_eq!(Credential::of(&HeaderMap::new()), Credential::Absent);
    }

    #[test]
    fn two_headers_are_an_unknown_credential() {
        let mut headers = HeaderMap::new();
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        assert_eq!(Credential::of(&headers), Credential::Unknown);
    }
}
