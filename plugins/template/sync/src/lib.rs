//! Links accounts by what the user types, and writes records from them.

use belvedere_plugin::http::Request;
use belvedere_plugin::{
    AccountPlugin, Fault, Item, Page, Plugin, Profile, SyncPlugin, Tokens, sync_plugin, url,
};
use serde_json::{Value, json};

const USERS: &str = "https://api.example.com/users";
const COLLECTION: &str = "com.example.favorite";
/// Favourites of a page.
const PAGE: usize = 100;

struct Template;

impl Plugin for Template {
    const MANIFEST: &'static str = include_str!("../manifest.json");
}

impl AccountPlugin for Template {
    /// `config` is what the user typed, as `config_schema` in the manifest describes it. The returned tokens are stored
    /// sealed and given to the other functions.
    fn connect(config: &Value) -> Result<Tokens, Fault> {
        let name = config["username"].as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Fault::bad_input("type your user name"))?;
        user(name)?;
        Ok(Tokens::lasting(name))
    }

    fn profile(tokens: &Tokens, _config: &Value) -> Result<Profile, Fault> {
        let user = user(&tokens.access)?;
        Ok(Profile {
            account_id: tokens.access.clone(),
            display_name: user["name"].as_str().map(str::to_owned),
            ..Profile::default()
        })
    }
}

impl SyncPlugin for Template {
    /// Called until a page has no `next`. A crash in between repeats at most one page.
    fn pull(tokens: &Tokens, _config: &Value, cursor: Option<&str>) -> Result<Page, Fault> {
        page(&user(&tokens.access)?, cursor)
    }
}

sync_plugin!(Template, "../../../wit/plugin");

fn user(name: &str) -> Result<Value, Fault> {
    let response = Request::get(&format!("{USERS}/{}.json", url::encode(name))).send()?;
    if response.status() == 404 {
        return Err(Fault::bad_input("there is no such user"));
    }
    response.successful()?.json()
}

fn page(user: &Value, cursor: Option<&str>) -> Result<Page, Fault> {
    let from: usize = match cursor {
        None => 0,
        Some(cursor) => {
            cursor.parse().map_err(|_| Fault::bad_input("the cursor is not one of this plugin"))?
        }
    };
    let all = user["favorites"].as_array().map(Vec::as_slice).unwrap_or_default();
    let part = all.iter().skip(from).take(PAGE);
    let items = part.filter_map(|favorite| Some(item(favorite["id"].as_str()?, favorite["title"].as_str()?)));
    let next = from + PAGE;
    Ok(Page { items: items.collect(), next: (next < all.len()).then(|| next.to_string()) })
}

/// The key makes the next sync replace the record. A record that says the same as before is not written again, so it has
/// no time of the sync.
fn item(id: &str, title: &str) -> Item {
    let value = json!({"$type": COLLECTION, "externalId": id, "title": title});
    Item { collection: COLLECTION.to_owned(), value, dedup_key: Some(id.to_owned()), sign: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn favourites_become_records() {
        let favorites: Vec<Value> = (0..150).map(|n| json!({"id": n.to_string(), "title": "A"})).collect();
        let user = json!({"favorites": favorites});
        let first = page(&user, None).unwrap();
        assert_eq!((first.items.len(), first.next.as_deref()), (100, Some("100")));
        let second = page(&user, first.next.as_deref()).unwrap();
        assert_eq!((second.items.len(), second.next), (50, None));
        assert!(page(&user, Some("x")).is_err());
    }
}
