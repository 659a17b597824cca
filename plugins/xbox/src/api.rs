//! Services of Xbox: the profile, and the titles that a user has played.

use belvedere_plugin::http::Request;
use belvedere_plugin::{Fault, Profile, url};
use serde::Deserialize;

use crate::xbox_live::Session;

const PROFILE: &str =
    "https://profile.xboxlive.com/users/me/profile/settings?settings=Gamertag,GameDisplayPicRaw";
const TITLES: &str = "https://titlehub.xboxlive.com/users";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProfileResponse {
    profile_users: Vec<ProfileUser>,
}

#[derive(Deserialize)]
struct ProfileUser {
    id: String,
    settings: Vec<Setting>,
}

#[derive(Deserialize)]
struct Setting {
    id: String,
    value: Option<String>,
}

#[derive(Deserialize)]
struct TitlesResponse {
    titles: Vec<Title>,
}

/// A game or an app.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Title {
    #[serde(rename = "titleId")]
    pub id: String,
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
}

pub(crate) fn profile(session: &Session) -> Result<Profile, Fault> {
    read_profile(get(session, PROFILE, "3").json()?, &session.xuid)
}

fn read_profile(response: ProfileResponse, xuid: &str) -> Result<Profile, Fault> {
    let user = response.profile_users.into_iter().find(|user| user.id == xuid);
    let user = user.ok_or_else(|| Fault::upstream("Xbox does not know the account"))?;
    let setting = |name: &str| {
        let found = user.settings.iter().find(|setting| setting.id == name);
        found.and_then(|setting| setting.value.clone()).filter(|value| !value.is_empty())
    };
    let display_name = setting("Gamertag");
    let address = |name: &String| format!("https://www.xbox.com/play/user/{}", url::encode(name));
    Ok(Profile {
        profile_url: display_name.as_ref().map(address),
        avatar_url: setting("GameDisplayPicRaw").filter(|url| url.starts_with("https://")),
        account_id: user.id,
        display_name,
    })
}

pub(crate) fn titles(session: &Session) -> Result<Vec<Title>, Fault> {
    let url = format!("{TITLES}/xuid({})/titles/titleHistory/decoration/detail", session.xuid);
    let response: TitlesResponse = get(session, &url, "2").header("accept-language", "en-US").json()?;
    Ok(response.titles)
}

fn get(session: &Session, url: &str, contract: &str) -> Request {
    Request::get(url)
        .header("authorization", &session.authorization)
        .header("x-xbl-contract-version", contract)
        .header("accept", "application/json")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn profiles_are_read() {
        let response = json!({"profileUsers": [{"id": "1", "hostId": "1", "isSponsoredUser": false, "settings": [
            {"id": "Gamertag", "value": "Major Nelson"},
            {"id": "GameDisplayPicRaw", "value": "https://images.example/1.png"},
        ]}]});
        let profile = read_profile(serde_json::from_value(response.clone()).unwrap(), "1").unwrap();
        assert_eq!(profile.account_id, "1");
        assert_eq!(profile.display_name.as_deref(), Some("Major Nelson"));
        assert_eq!(profile.profile_url.as_deref(), Some("https://www.xbox.com/play/user/Major%20Nelson"));
        assert_eq!(profile.avatar_url.as_deref(), Some("https://images.example/1.png"));
        assert!(read_profile(serde_json::from_value(response).unwrap(), "2").is_err());
    }
}
