//! Games as records.

use belvedere_plugin::{Fault, Item, Page, lookup, time};
use serde_json::{Value, json};

use crate::api::Game;

const OWNERSHIP: &str = "dev.games.actor.ownership";
const STATS: &str = "dev.games.actor.stats";
/// Games have a record here, with `externalIds.steam`, if the index knows them.
const GAMES: &str = "dev.games.game";
/// Games of a page. Each is two records and one look-up in the index.
const PAGE: usize = 100;

/// The page after the game `cursor`. Steam has no pages, so each reads the whole list; games are sorted by their id, so
/// that a page ends where the next begins even when a game is bought in between.
pub(crate) fn page(games: Vec<Game>, cursor: Option<&str>) -> Result<Page, Fault> {
    let (games, next) = slice(games, cursor)?;
    let mut items = Vec::with_capacity(games.len() * 2);
    for game in &games {
        let found = lookup::find(GAMES, "externalIds.steam", &json!(game.appid.to_string()))?;
        let subject = found.and_then(|found| Some(json!({"uri": found.uri, "cid": found.cid?})));
        items.push(ownership(game, subject.as_ref()));
        items.push(stats(game, subject.as_ref()));
    }
    Ok(Page { items, next })
}

fn slice(mut games: Vec<Game>, cursor: Option<&str>) -> Result<(Vec<Game>, Option<String>), Fault> {
    let after = match cursor {
        None => 0,
        Some(cursor) => {
            cursor.parse().map_err(|_| Fault::bad_input("the cursor is not one of this plugin"))?
        }
    };
    games.retain(|game| game.appid > after);
    games.sort_by_key(|game| game.appid);
    games.dedup_by_key(|game| game.appid);
    let more = games.len() > PAGE;
    games.truncate(PAGE);
    let next = games.last().filter(|_| more).map(|last| last.appid.to_string());
    Ok((games, next))
}

/// No field has the time of the sync: a record that says the same as before is not written again.
fn ownership(game: &Game, subject: Option<&Value>) -> Item {
    item(OWNERSHIP, game, subject, json!({"title": game.name}))
}

fn stats(game: &Game, subject: Option<&Value>) -> Item {
    let last_played = (game.rtime_last_played > 0).then(|| time::rfc3339(game.rtime_last_played));
    let fields = json!({
        "playtimeMinutes": game.playtime_forever,
        "playtimeTwoWeeksMinutes": game.playtime_2weeks,
        "lastPlayedAt": last_played,
    });
    item(STATS, game, subject, fields)
}

fn item(collection: &str, game: &Game, subject: Option<&Value>, fields: Value) -> Item {
    let id = game.appid.to_string();
    let mut value = json!({"$type": collection, "platform": "steam", "externalId": id});
    let game = json!({"game": subject});
    for (name, field) in [fields, game].into_iter().filter_map(|more| more.as_object().cloned()).flatten() {
        if !field.is_null() {
            value[name] = field;
        }
    }
    // Several plugins write these collections, so the platform is part of the key.
    Item { collection: collection.to_owned(), value, dedup_key: Some(format!("steam:{id}")), sign: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn game(appid: u64) -> Game {
        Game {
            appid,
            name: Some(format!("Game {appid}")),
            playtime_forever: 90,
            playtime_2weeks: None,
            rtime_last_played: 1_700_000_000,
        }
    }

    #[test]
    fn pages_cover_all_games_once() {
        let games: Vec<Game> = (1..=250).rev().chain([7, 7]).map(game).collect();
        let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
        loop {
            let (page, next) = slice(games.clone(), cursor.as_deref()).unwrap();
            seen.extend(page.iter().map(|game| game.appid));
            pages += 1;
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(pages, 3);
        assert_eq!(seen, (1..=250).collect::<Vec<_>>());
        assert!(slice(Vec::new(), None).unwrap().1.is_none());
        assert!(slice((1..=100).map(game).collect(), None).unwrap().1.is_none());
        assert!(slice(Vec::new(), Some("x")).is_err());
    }

    #[test]
    fn records_say_what_steam_says() {
        let subject = json!({"uri": "at://did:plc:a/dev.games.game/1", "cid": "bafy"});
        let item = stats(&game(440), Some(&subject));
        assert_eq!(item.dedup_key.as_deref(), Some("steam:440"));
        assert!(item.sign);
        let expected = json!({
            "$type": STATS, "platform": "steam", "externalId": "440", "game": subject,
            "playtimeMinutes": 90, "lastPlayedAt": "2023-11-14T22:13:20Z",
        });
        assert_eq!(item.value, expected);
        let expected =
            json!({"$type": OWNERSHIP, "platform": "steam", "externalId": "440", "title": "Game 440"});
        assert_eq!(ownership(&game(440), None).value, expected);
        let never = Game { rtime_last_played: 0, name: None, ..game(1) };
        assert!(stats(&never, None).value.get("lastPlayedAt").is_none());
        assert!(ownership(&never, None).value.get("title").is_none());
    }
}
