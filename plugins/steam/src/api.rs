//! The Steam Web API.

use belvedere_plugin::http::Request;
use belvedere_plugin::{Fault, FaultCode, Profile, secrets, url};
use serde::Deserialize;
use serde::de::DeserializeOwned;

const PLAYER_SUMMARIES: &str = "https://api.steampowered.com/ISteamUser/GetPlayerSummaries/v2/";
const OWNED_GAMES: &str = "https://api.steampowered.com/IPlayerService/GetOwnedGames/v1/";

/// All answers have this around them.
#[derive(Deserialize)]
struct Answer<T> {
    response: T,
}

#[derive(Deserialize)]
struct Players {
    players: Vec<Player>,
}

#[derive(Deserialize)]
struct Player {
    steamid: String,
    personaname: Option<String>,
    profileurl: Option<String>,
    avatarfull: Option<String>,
}

/// Without games when the user's game details are private.
#[derive(Deserialize)]
struct OwnedGames {
    games: Option<Vec<Game>>,
    game_count: Option<u64>,
}

/// A game that the user owns.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Game {
    pub appid: u64,
    pub name: Option<String>,
    /// Minutes.
    #[serde(default)]
    pub playtime_forever: u64,
    /// Minutes in the last two weeks.
    pub playtime_2weeks: Option<u64>,
    /// Seconds since 1970; 0 when it was never played.
    #[serde(default)]
    pub rtime_last_played: i64,
}

pub(crate) fn profile(steam_id: &str) -> Result<Profile, Fault> {
    let players: Players = get(PLAYER_SUMMARIES, &[("steamids", steam_id)])?;
    let player = players.players.into_iter().find(|player| player.steamid == steam_id);
    let player = player.ok_or_else(|| Fault::upstream("Steam does not know the account"))?;
    Ok(Profile {
        account_id: player.steamid,
        display_name: player.personaname,
        profile_url: player.profileurl,
        avatar_url: player.avatarfull,
    })
}

pub(crate) fn owned_games(steam_id: &str) -> Result<Vec<Game>, Fault> {
    let params = [("steamid", steam_id), ("include_appinfo", "1"), ("include_played_free_games", "1")];
    let owned: OwnedGames = get(OWNED_GAMES, &params)?;
    match owned {
        OwnedGames { games: Some(games), .. } => Ok(games),
        OwnedGames { game_count: Some(0), .. } => Ok(Vec::new()),
        _ => Err(Fault::forbidden(
            "Steam shows no games: set \"Game details\" to public in the privacy settings of your Steam profile",
        )),
    }
}

fn get<T: DeserializeOwned>(endpoint: &str, params: &[(&str, &str)]) -> Result<T, Fault> {
    let key = secrets::required("API_KEY")?;
    let mut query = vec![("key", key.as_str()), ("format", "json")];
    query.extend_from_slice(params);
    let response = Request::get(&url::with_query(endpoint, &query)).send()?;
    if matches!(response.status(), 401 | 403) {
        // Steam's 401 is about the operator's key: users have no tokens that they could renew.
        let mut fault =
            Fault::new(FaultCode::Internal, "Steam refuses the API key; the operator must set another");
        fault.status = Some(response.status());
        return Err(fault);
    }
    Ok(response.successful()?.json::<Answer<T>>()?.response)
}
