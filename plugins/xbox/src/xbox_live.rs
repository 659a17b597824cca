//! Xbox Live's own tokens: Microsoft's becomes a user token, and that one an XSTS token, which services accept.

use belvedere_plugin::http::{Request, Response};
use belvedere_plugin::{Fault, FaultCode};
use serde::Deserialize;
use serde_json::{Value, json};

const AUTHENTICATE: &str = "https://user.auth.xboxlive.com/user/authenticate";
const AUTHORIZE: &str = "https://xsts.auth.xboxlive.com/xsts/authorize";

/// The credentials for calls of Xbox services.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// The header `Authorization`.
    pub authorization: String,
    /// The account's id.
    pub xuid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TokenResponse {
    token: String,
    display_claims: DisplayClaims,
}

#[derive(Deserialize)]
struct DisplayClaims {
    xui: Vec<Claims>,
}

#[derive(Deserialize)]
struct Claims {
    /// The hash of the user, part of the header.
    uhs: String,
    /// Only with an XSTS token.
    xid: Option<String>,
}

/// An error of XSTS.
#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "XErr")]
    code: Option<u64>,
}

pub(crate) fn sign_in(microsoft_token: &str) -> Result<Session, Fault> {
    let properties = json!({"AuthMethod": "RPS", "SiteName": "user.auth.xboxlive.com", "RpsTicket": format!("d={microsoft_token}")});
    let user: TokenResponse =
        call(AUTHENTICATE, "http://auth.xboxlive.com", &properties)?.successful()?.json()?;
    let properties = json!({"UserTokens": [user.token], "SandboxId": "RETAIL"});
    let response = call(AUTHORIZE, "http://xboxlive.com", &properties)?;
    if response.status() == 401 {
        return Err(refused(response.json::<Refusal>().ok().and_then(|refusal| refusal.code)));
    }
    session(response.successful()?.json()?)
}

fn call(endpoint: &str, relying_party: &str, properties: &Value) -> Result<Response, Fault> {
    let body = json!({"RelyingParty": relying_party, "TokenType": "JWT", "Properties": properties});
    Request::post_json(endpoint, &body)
        .header("x-xbl-contract-version", "1")
        .header("accept", "application/json")
        .send()
}

fn session(response: TokenResponse) -> Result<Session, Fault> {
    match response.display_claims.xui.into_iter().next() {
        Some(Claims { uhs, xid: Some(xuid) })
            if !xuid.is_empty() && xuid.bytes().all(|b| b.is_ascii_digit()) =>
        {
            Ok(Session { authorization: format!("XBL3.0 x={uhs};{}", response.token), xuid })
        }
        _ => Err(Fault::upstream("Xbox Live named no account")),
    }
}

/// The errors that users can do something about.
fn refused(code: Option<u64>) -> Fault {
    match code {
        Some(2_148_916_233) => {
            Fault::forbidden("this Microsoft account has no Xbox profile: create one at https://www.xbox.com")
        }
        Some(2_148_916_235) => Fault::forbidden("Xbox Live is not available in the country of this account"),
        Some(2_148_916_236 | 2_148_916_237) => {
            Fault::forbidden("Xbox asks for a proof of age: sign in at xbox.com")
        }
        Some(2_148_916_238) => {
            Fault::forbidden("this is a child's account: an adult must add it to a Microsoft family group")
        }
        _ => Fault::new(FaultCode::NeedsReauth, "Xbox Live no longer accepts this sign-in"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(claims: Value) -> Result<Session, Fault> {
        session(serde_json::from_value(json!({"Token": "t", "DisplayClaims": {"xui": claims}})).unwrap())
    }

    #[test]
    fn the_header_has_hash_and_token() {
        let session = read(json!([{"uhs": "h", "xid": "2533274790395904", "gtg": "Gamer"}])).unwrap();
        assert_eq!(session.authorization, "XBL3.0 x=h;t");
        assert_eq!(session.xuid, "2533274790395904");
    }

    #[test]
    fn answers_without_an_account_are_refused() {
        for claims in [json!([]), json!([{"uhs": "h"}]), json!([{"uhs": "h", "xid": "1)/../x("}])] {
            assert_eq!(read(claims).unwrap_err().code, FaultCode::Upstream);
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        assert!(refused(Some(2_148_916_233)).message.contains("no Xbox profile"));
        assert_eq!(refused(Some(1)).code, FaultCode::NeedsReauth);
        assert_eq!(refused(None).code, FaultCode::NeedsReauth);
    }
}
