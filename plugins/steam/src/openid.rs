//! OpenID Authentication 2.0 with Steam as the provider.

use belvedere_plugin::http::{self, Request};
use belvedere_plugin::{Callback, Fault, Scope, Start, clock, kv, time, url};

/// The provider's endpoint, to which the browser goes and which checks assertions.
const ENDPOINT: &str = "https://steamcommunity.com/openid/login";
const NAMESPACE: &str = "http://specs.openid.net/auth/2.0";
/// Selects the account that signs in: Steam has no names to ask for.
const IDENTIFIER_SELECT: &str = "http://specs.openid.net/auth/2.0/identifier_select";
/// The beginning of a claimed id. The Steam id follows.
const CLAIMED_ID: &str = "https://steamcommunity.com/openid/id/";
/// A Steam id has 17 digits.
const STEAM_ID_DIGITS: usize = 17;
/// Fields that an assertion must sign (OpenID 2.0 §10.1): without them an attacker could exchange what they say.
const SIGNED: [&str; 6] =
    ["op_endpoint", "claimed_id", "identity", "return_to", "response_nonce", "assoc_handle"];
/// Assertions are accepted for this long, in seconds, and their nonces are kept for twice as long: so none is accepted
/// twice. They are kept with the sign-in, because `return_to` binds an assertion to the state of one.
const MAX_AGE: i64 = 300;
/// Longest nonce (OpenID 2.0 §10.1).
const MAX_NONCE: usize = 255;

/// The URL at which the user signs in. OpenID has no state, so it is part of the URL that Steam sends the browser back
/// to.
pub(crate) fn authorize_url(start: &Start) -> Result<String, Fault> {
    let return_to = return_to(&start.redirect_uri, &start.state);
    let realm = origin(&start.redirect_uri).ok_or_else(|| Fault::bad_input("the redirect URI is no URL"))?;
    let params = [
        ("openid.ns", NAMESPACE),
        ("openid.mode", "checkid_setup"),
        ("openid.return_to", &return_to),
        ("openid.realm", realm),
        ("openid.identity", IDENTIFIER_SELECT),
        ("openid.claimed_id", IDENTIFIER_SELECT),
    ];
    Ok(url::with_query(&http::service_url(ENDPOINT), &params))
}

/// Verifies the assertion that the browser brought, and returns the Steam id.
pub(crate) fn verify(callback: &Callback) -> Result<String, Fault> {
    let assertion = Assertion::read(callback)?;
    let now = i64::try_from(clock::now_ms() / 1000).unwrap_or(i64::MAX);
    assertion.check_time(now)?;
    let key = format!("nonce:{}", assertion.nonce);
    if kv::get(Scope::Flow, &key)?.is_some() {
        return Err(refused("it was used before"));
    }
    if !is_valid(&check_authentication(callback)?) {
        return Err(refused("Steam does not confirm it"));
    }
    kv::set(Scope::Flow, &key, b"", u32::try_from(2 * MAX_AGE).ok())?;
    Ok(assertion.steam_id.to_owned())
}

fn return_to(redirect_uri: &str, state: &str) -> String {
    url::with_query(redirect_uri, &[("state", state)])
}

/// The URL up to its path.
fn origin(url: &str) -> Option<&str> {
    let start = url.find("://")? + 3;
    let end = url[start..].find('/').map_or(url.len(), |slash| start + slash);
    (end > start).then(|| &url[..end])
}

fn refused(why: &str) -> Fault {
    Fault::forbidden(format!("Steam's assertion is not accepted: {why}"))
}

/// A positive assertion whose fields were checked, but that Steam has yet to confirm.
#[derive(Debug)]
struct Assertion<'callback> {
    steam_id: &'callback str,
    nonce: &'callback str,
}

impl<'callback> Assertion<'callback> {
    /// Checks what can be checked without Steam (OpenID 2.0 §11).
    fn read(callback: &'callback Callback) -> Result<Self, Fault> {
        // With two values of a field, Steam may confirm one while the other is used here.
        let names = callback.params.iter().map(|(name, _)| name).filter(|name| name.starts_with("openid."));
        let mut seen: Vec<&String> = names.collect();
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() != count {
            return Err(refused("a field occurs twice"));
        }
        let field = |name: &str| {
            callback.param(&format!("openid.{name}")).ok_or_else(|| refused(&format!("{name} is missing")))
        };
        match field("mode")? {
            "id_res" => {}
            "cancel" => return Err(Fault::forbidden("the sign-in at Steam was cancelled")),
            _ => return Err(refused("it is no positive one")),
        }
        if field("ns")? != NAMESPACE {
            return Err(refused("it is of another version of OpenID"));
        }
        if field("op_endpoint")? != ENDPOINT {
            return Err(refused("it is from another provider"));
        }
        if field("return_to")? != return_to(&callback.redirect_uri, &callback.state) {
            return Err(refused("it is for another sign-in"));
        }
        let signed: Vec<&str> = field("signed")?.split(',').collect();
        if let Some(missing) = SIGNED.iter().find(|name| !signed.contains(name)) {
            return Err(refused(&format!("{missing} is not signed")));
        }
        let claimed_id = field("claimed_id")?;
        if field("identity")? != claimed_id {
            return Err(refused("identity and claimed_id differ"));
        }
        let steam_id = claimed_id.strip_prefix(CLAIMED_ID).unwrap_or_default();
        if steam_id.len() != STEAM_ID_DIGITS || !steam_id.bytes().all(|b| b.is_ascii_digit()) {
            return Err(refused("it names no Steam account"));
        }
        let nonce = field("response_nonce")?;
        if nonce.len() > MAX_NONCE {
            return Err(refused("its nonce is too long"));
        }
        field("assoc_handle")?;
        field("sig")?;
        Ok(Self { steam_id, nonce })
    }

    /// A nonce begins with the time of the assertion.
    fn check_time(&self, now: i64) -> Result<(), Fault> {
        let made = self.nonce.split_at_checked(20).and_then(|(time, _)| time::parse_rfc3339(time));
        match made {
            Some(made) if (now - made).abs() <= MAX_AGE => Ok(()),
            Some(_) => Err(refused("it is too old, or the server's clock is wrong")),
            None => Err(refused("its nonce has no time")),
        }
    }
}

/// Asks Steam about the assertion (OpenID 2.0 §11.4.2), and returns its answer.
fn check_authentication(callback: &Callback) -> Result<String, Fault> {
    let mut params = Vec::new();
    for (name, value) in &callback.params {
        if name == "openid.mode" {
            params.push((name.as_str(), "check_authentication"));
        } else if name.starts_with("openid.") {
            params.push((name.as_str(), value.as_str()));
        }
    }
    let response = Request::post_form(ENDPOINT, &params).send()?.successful()?;
    Ok(String::from_utf8_lossy(response.body()).into_owned())
}

/// Whether an answer in key-value form (OpenID 2.0 §4.1.1) confirms an assertion.
fn is_valid(answer: &str) -> bool {
    let value = |key: &str| answer.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value("ns") == Some(NAMESPACE) && value("is_valid") == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callback(change: impl FnOnce(&mut Vec<(String, String)>)) -> Callback {
        let id = "https://steamcommunity.com/openid/id/76561197960287930";
        let mut params: Vec<(String, String)> = [
            ("state", "abc"),
            ("openid.ns", NAMESPACE),
            ("openid.mode", "id_res"),
            ("openid.op_endpoint", ENDPOINT),
            ("openid.claimed_id", id),
            ("openid.identity", id),
            ("openid.return_to", "https://a.example/external-auth/steam/callback?state=abc"),
            ("openid.response_nonce", "2023-11-14T22:13:20ZabcDEF="),
            ("openid.assoc_handle", "1234567890"),
            ("openid.signed", "signed,op_endpoint,claimed_id,identity,return_to,response_nonce,assoc_handle"),
            ("openid.sig", "c2ln"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        change(&mut params);
        Callback {
            state: "abc".to_owned(),
            redirect_uri: "https://a.example/external-auth/steam/callback".to_owned(),
            params,
            config: serde_json::Value::Null,
        }
    }

    fn set(params: &mut [(String, String)], name: &str, value: &str) {
        let field = params.iter_mut().find(|(key, _)| key == &format!("openid.{name}"));
        value.clone_into(&mut field.unwrap().1);
    }

    #[test]
    fn a_complete_assertion_names_the_account() {
        let callback = callback(|_| {});
        let assertion = Assertion::read(&callback).unwrap();
        assert_eq!(assertion.steam_id, "76561197960287930");
        assertion.check_time(1_700_000_000 + MAX_AGE).unwrap();
        assert!(assertion.check_time(1_700_000_001 + MAX_AGE).is_err());
        assert!(assertion.check_time(1_699_999_999 - MAX_AGE).is_err());
    }

    #[test]
    fn changed_assertions_are_refused() {
        let other_signed = "signed,op_endpoint,claimed_id,identity,response_nonce,assoc_handle";
        for (name, value, expected) in [
            ("mode", "cancel", "cancelled"),
            ("mode", "setup_needed", "no positive"),
            ("ns", "http://openid.net/signon/1.0", "version"),
            ("op_endpoint", "https://evil.example/openid/login", "another provider"),
            ("return_to", "https://a.example/external-auth/steam/callback?state=other", "another sign-in"),
            ("return_to", "https://evil.example/callback?state=abc", "another sign-in"),
            ("signed", other_signed, "return_to is not signed"),
            ("claimed_id", "https://steamcommunity.com/openid/id/76561197960287931", "differ"),
            ("response_nonce", &"x".repeat(256), "too long"),
        ] {
            let callback = callback(|params| set(params, name, value));
            let message = Assertion::read(&callback).unwrap_err().message;
            assert!(message.contains(expected), "{name}={value}: {message}");
        }
    }

    #[test]
    fn claimed_ids_have_one_form() {
        for id in [
            "http://steamcommunity.com/openid/id/76561197960287930",
            "https://steamcommunity.com.evil.example/openid/id/76561197960287930",
            "https://steamcommunity.com/openid/id/7656119796028793",
            "https://steamcommunity.com/openid/id/76561197960287930/",
            "https://steamcommunity.com/openid/id/7656119796028793x",
            "",
        ] {
            let callback = callback(|params| {
                set(params, "claimed_id", id);
                set(params, "identity", id);
            });
            let message = Assertion::read(&callback).unwrap_err().message;
            assert!(message.contains("no Steam account"), "{id}: {message}");
        }
    }

    #[test]
    fn every_field_is_needed_once() {
        let names: Vec<String> = callback(|_| {}).params.into_iter().skip(1).map(|(name, _)| name).collect();
        for name in names {
            let without = callback(|params| params.retain(|(key, _)| *key != name));
            assert!(Assertion::read(&without).unwrap_err().message.contains("missing"), "{name}");
            let twice = callback(|params| params.push((name.clone(), "x".to_owned())));
            assert!(Assertion::read(&twice).unwrap_err().message.contains("twice"), "{name}");
        }
    }

    #[test]
    fn nonces_begin_with_a_time() {
        for nonce in ["", "abc", "2023-11-14 22:13:20Zabc", "2023-11-14T22:13:2éZabc"] {
            let callback = callback(|params| set(params, "response_nonce", nonce));
            assert!(Assertion::read(&callback).unwrap().check_time(1_700_000_000).is_err(), "{nonce}");
        }
    }

    #[test]
    fn answers_are_read_line_by_line() {
        assert!(is_valid("ns:http://specs.openid.net/auth/2.0\nis_valid:true\n"));
        for answer in [
            "",
            "is_valid:true\n",
            "ns:http://specs.openid.net/auth/2.0\nis_valid:false\n",
            "ns:http://specs.openid.net/auth/2.0\nnot_is_valid:true\n",
            "ns:http://specs.openid.net/auth/2.0\nis_valid:true2\n",
        ] {
            assert!(!is_valid(answer), "{answer}");
        }
    }

    #[test]
    fn the_realm_is_the_origin() {
        assert_eq!(origin("https://a.example/x/y"), Some("https://a.example"));
        assert_eq!(origin("http://127.0.0.1:3000"), Some("http://127.0.0.1:3000"));
        assert_eq!(origin("https:///x"), None);
        assert_eq!(origin("x"), None);
    }
}
