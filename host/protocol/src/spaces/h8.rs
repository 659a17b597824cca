//! The policies of the generation of July and August 2026 (spaces.md §4, "legacy"): words, and unions with `type`. This
//! server reads them and writes only those of [`super::r10`].

use serde_json::Value;

use super::access::Policy;
use super::app_gate::AppAccess;
use super::r10::policy::{Unsupported, allow_list};

/// Reads a policy word; without one it is `member-list`. `managing_app`: the DID of the app, with a fragment or without.
///
/// # Errors
/// For another word, and for `managing-app` without a valid app.
pub fn policy(word: Option<&str>, managing_app: Option<&str>) -> Result<Policy, Unsupported> {
    match word {
        Some("public") => Ok(Policy::Public),
        None | Some("member-list") => Ok(Policy::MemberList),
        Some("managing-app") => {
            let app = managing_app.ok_or(Unsupported::Policy)?.parse()?;
            Ok(Policy::ManagingApp(app))
        }
        Some(_) => Err(Unsupported::Policy),
    }
}

/// Reads `appAccess` with `type` in place of `$type`.
///
/// # Errors
/// For every other form.
pub fn app_access(value: &Value) -> Result<AppAccess, Unsupported> {
    match value["type"].as_str() {
        Some("open") => Ok(AppAccess::Open),
        Some("allowList") => allow_list(value),
        _ => Err(Unsupported::AppAccess),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_become_policies() {
        assert_eq!(policy(None, None), Ok(Policy::MemberList));
        assert_eq!(policy(Some("member-list"), None), Ok(Policy::MemberList));
        assert_eq!(policy(Some("public"), Some("did:web:unused.example")), Ok(Policy::Public));
        let app = "did:web:app.example#spaces";
        assert_eq!(policy(Some("managing-app"), Some(app)), Ok(Policy::ManagingApp(app.parse().unwrap())));
        for (word, app) in
            [("managing-app", None), ("managing-app", Some("app")), ("Public", None), ("", None)]
        {
            assert_eq!(policy(Some(word), app), Err(Unsupported::Policy), "{word}");
        }
        assert_eq!(app_access(&json!({ "type": "open" })), Ok(AppAccess::Open));
        let list = AppAccess::AllowList(vec!["https://app.example/c.json".to_owned()]);
        assert_eq!(
            app_access(&json!({ "type": "allowList", "allowed": ["https://app.example/c.json"] })),
            Ok(list)
        );
        assert_eq!(app_access(&json!({ "$type": "open" })), Err(Unsupported::AppAccess));
    }
}
