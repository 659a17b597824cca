//! Checks what plugins and services say before it is stored, shown, or followed.

use url::{Host, Url};

use super::super::calls::{Profile, Tokens};
use super::{AccountError, Linker};
use crate::plugins::limits;

/// Most characters of a plugin's message that users see.
const MAX_MESSAGE: usize = 300;

/// Most characters of an unknown plugin id that an error repeats.
pub(super) const MAX_SHOWN_ID: usize = 64;

/// Longest account id in bytes. Services use numbers, names and UUIDs.
const MAX_ACCOUNT_ID: usize = 512;

/// Longest display name in characters.
const MAX_NAME: usize = 200;

/// Longest URL in bytes: browsers and proxies accept no longer ones reliably.
const MAX_URL: usize = limits::URL_BYTES;

/// Longest token in bytes. Tokens with embedded claims have a few kilobytes.
const MAX_TOKEN: usize = limits::TOKEN_BYTES;

/// Longest token type and scope in bytes.
const MAX_SCOPE: usize = 4 * 1024;

/// A text without control characters, cut for a message to users.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE).collect()
}

/// The same for a text that may have secrets of the plugin. They are hidden in what is shown, before it is cut: of a secret
/// at the end, a part would stay.
pub(super) fn shown_by(plugin: &dyn Linker, text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).collect();
    shown(&plugin.hide_secrets(&clean))
}

/// Checks the sizes of tokens, and removes control characters from the parts that are stored as text.
///
/// # Errors
/// When they are too long to be stored.
pub(super) fn tokens(mut tokens: Tokens) -> Result<Tokens, AccountError> {
    let refresh = tokens.refresh.as_ref().map_or(0, String::len);
    let scope = tokens.scope.as_ref().map_or(0, String::len);
    if tokens.access.is_empty() {
        return Err(AccountError::Answer("the access token is empty".to_owned()));
    }
    if tokens.access.len().max(refresh) > MAX_TOKEN || scope.max(tokens.token_type.len()) > MAX_SCOPE {
        return Err(AccountError::Answer(format!("a token is larger than {MAX_TOKEN} bytes")));
    }
    tokens.token_type.retain(|c| !c.is_control());
    if let Some(scope) = &mut tokens.scope {
        scope.retain(|c| !c.is_control());
    }
    Ok(tokens)
}

/// Checks a profile: its id identifies the account, its texts are cut, and URLs that are not web pages are left out.
///
/// # Errors
/// When the id can't identify an account.
pub(super) fn profile(profile: Profile) -> Result<Profile, AccountError> {
    let Profile { account_id, display_name, profile_url, avatar_url } = profile;
    if account_id.is_empty()
        || account_id.len() > MAX_ACCOUNT_ID
        || account_id.chars().any(|c| c.is_control() || c.is_whitespace())
    {
        return Err(AccountError::Answer(format!(
            "the account's id must have 1 to {MAX_ACCOUNT_ID} bytes, without spaces"
        )));
    }
    let name = display_name.map(|name| name.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect());
    let page = |url: Option<String>| url.filter(|url| is_web_page(url));
    Ok(Profile {
        account_id,
        display_name: name.filter(|name: &String| !name.trim().is_empty()),
        profile_url: page(profile_url),
        avatar_url: page(avatar_url),
    })
}

fn is_web_page(text: &str) -> bool {
    let is_http = || Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "https" | "http"));
    text.len() <= MAX_URL && !text.chars().any(char::is_control) && is_http()
}

/// An address of a service to which users are sent: https, or on this machine if that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl(String);

impl ServiceUrl {
    pub(super) fn parse(text: &str, allow_loopback: bool) -> Result<Self, AccountError> {
        let refused = |why: &str| Err(AccountError::Answer(format!("the address to sign in at {why}")));
        if text.len() > MAX_URL || text.chars().any(char::is_control) {
            return refused("is too long or has control characters");
        }
        let Ok(url) = Url::parse(text) else { return refused("is no URL") };
        let is_loopback = match url.host() {
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => return refused("has no host"),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refused("holds a password");
        }
        match url.scheme() {
            "https" => {}
            "http" if is_loopback && allow_loopback => {}
            _ => return refused("is not an https URL"),
        }
        Ok(Self(url.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::calls::Expiry;

    #[test]
    fn users_are_sent_to_https_and_to_this_machine_only_if_it_is_allowed() {
        let allows = |text: &str, loopback| ServiceUrl::parse(text, loopback).is_ok();
        assert!(allows("https://service.example/login?a=b", false));
        for local in ["http://127.0.0.1:80/a", "http://localhost/a", "http://[::1]/a"] {
            assert!(allows(local, true) && !allows(local, false), "{local}");
        }
        for bad in [
            "http://service.example/",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://user:pw@service.example/",
            "https://user@service.example/",
            "/relative",
            "",
            "https://service.example/\nx",
        ] {
            assert!(!allows(bad, true), "{bad}");
        }
        assert!(!allows(&format!("https://service.example/{}", "a".repeat(MAX_URL)), true));
    }

    #[test]
    fn a_profile_must_name_the_account_and_its_other_fields_are_cleaned() {
        let of = |id: &str| Profile {
            account_id: id.to_owned(),
            display_name: Some(format!("a\0b\n{}", "c".repeat(MAX_NAME))),
            profile_url: Some("https://service.example/me".to_owned()),
            avatar_url: Some("javascript:alert(1)".to_owned()),
        };
        let good = profile(of("765611")).unwrap();
        let name = good.display_name.unwrap();
        assert!(name.starts_with("abc") && name.len() == MAX_NAME, "{name}");
        assert_eq!((good.profile_url.is_some(), good.avatar_url), (true, None));
        assert!(profile(of(&"a".repeat(MAX_ACCOUNT_ID))).is_ok());
        for bad in ["", "a b", "a\0", &"a".repeat(MAX_ACCOUNT_ID + 1)] {
            assert!(profile(of(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn tokens_have_a_size_limit() {
        let of = |access: &str, refresh: Option<&str>, kind: &str| Tokens {
            access: access.to_owned(),
            refresh: refresh.map(str::to_owned),
            token_type: kind.to_owned(),
            scope: Some("a\0b".to_owned()),
            expiry: Expiry::Never,
        };
        let (fits, long) = ("t".repeat(MAX_TOKEN), "t".repeat(MAX_TOKEN + 1));
        let good = tokens(of(&fits, Some(&fits), "Bea\0rer")).unwrap();
        assert_eq!((good.token_type.as_str(), good.scope.as_deref()), ("Bearer", Some("ab")));
        for bad in [
            of("", None, "b"),
            of(&long, None, "b"),
            of("a", Some(&long), "b"),
            of("a", None, &"t".repeat(MAX_SCOPE + 1)),
        ] {
            assert!(tokens(bad).is_err());
        }
    }

    #[test]
    fn messages_are_cut_and_have_no_control_characters() {
        assert_eq!(shown("a\u{0}\r\nb"), "ab");
        assert_eq!(shown(&"é".repeat(1_000)).chars().count(), MAX_MESSAGE);
    }
}
