//! Titles as records.

use belvedere_plugin::{Fault, Item, Page};
use serde_json::json;

use crate::api::Title;

const OWNERSHIP: &str = "dev.games.actor.ownership";
/// Titles of a page.
const PAGE: usize = 100;

/// The page after the title `cursor`. The service has no pages, so each reads the whole history; titles are sorted by their
/// id, so that a page ends where the next begins even when a game is played in between.
pub(crate) fn page(mut titles: Vec<Title>, cursor: Option<&str>) -> Result<Page, Fault> {
    if cursor.is_some_and(|cursor| number(cursor).is_none()) {
        return Err(Fault::bad_input("the cursor is not one of this plugin"));
    }
    let after = cursor.and_then(number);
    // The history has apps too, such as video players.
    titles.retain(|title| title.kind.as_deref().is_none_or(|kind| kind == "Game"));
    titles.retain(|title| number(&title.id).is_some_and(|id| after.is_none_or(|after| id > after)));
    titles.sort_by_key(|title| number(&title.id));
    titles.dedup_by_key(|title| number(&title.id));
    let more = titles.len() > PAGE;
    titles.truncate(PAGE);
    let next = titles.last().filter(|_| more).map(|last| last.id.clone());
    Ok(Page { items: titles.into_iter().map(item).collect(), next })
}

fn number(id: &str) -> Option<u64> {
    id.parse().ok()
}

fn item(title: Title) -> Item {
    let mut value = json!({"$type": OWNERSHIP, "platform": "xbox", "externalId": title.id});
    if let Some(name) = title.name {
        value["title"] = name.into();
    }
    // Several plugins write this collection, so the platform is part of the key.
    let dedup_key = Some(format!("xbox:{}", title.id));
    Item { collection: OWNERSHIP.to_owned(), value, dedup_key, sign: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(id: &str, kind: &str) -> Title {
        let kind = Some(kind.to_owned());
        Title { id: id.to_owned(), name: Some(format!("Title {id}")), kind }
    }

    #[test]
    fn pages_cover_all_games_once() {
        let titles: Vec<Title> = (1..=230).rev().map(|id| title(&id.to_string(), "Game")).collect();
        let (mut seen, mut cursor) = (0, None);
        for expected in [100, 100, 30] {
            let found = page(titles.clone(), cursor.as_deref()).unwrap();
            assert_eq!(found.items.len(), expected);
            seen += found.items.len();
            cursor = found.next;
        }
        assert_eq!((seen, cursor), (230, None));
        assert!(page(Vec::new(), Some("x")).is_err());
    }

    #[test]
    fn apps_are_left_out() {
        let found = page(vec![title("2", "App"), title("x", "Game"), title("1", "Game")], None).unwrap();
        let expected = json!({"$type": OWNERSHIP, "platform": "xbox", "externalId": "1", "title": "Title 1"});
        assert_eq!(found.items.len(), 1);
        assert_eq!(found.items[0].value, expected);
        assert_eq!(found.items[0].dedup_key.as_deref(), Some("xbox:1"));
    }
}
