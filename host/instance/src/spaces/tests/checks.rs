//! Compares each path that can return a record with the model, for each viewer.

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use serde_json::Value;

use super::model::{Model, SPACES, Sight, USERS};
use super::{NOTE, did, text, viewer};
use crate::spaces::{ListQuery, OpQuery, Presented, SpaceError, Spaces, Viewer};
use belvedere_protocol::atproto::{Did, Nsid};
use belvedere_protocol::spaces::r10::SpaceCar;
use belvedere_protocol::spaces::{RecordPath, SpaceUri};
use belvedere_storage::store::Db;
use belvedere_storage::store::spaces::records::{PAGE_BYTES, SpaceRecord};

type Rows = BTreeMap<(usize, usize), u64>;

pub struct Checker<'a> {
    pub spaces: &'a Spaces,
    pub db: &'a Db,
    pub model: &'a Model,
    pub uris: &'a [SpaceUri],
}

/// The viewer whose answers are compared: a user, the holder of a credential, or a call without a user.
#[derive(Clone, Copy, Debug)]
enum Who {
    User(usize),
    Holder,
    Anonymous,
}

impl Checker<'_> {
    /// Compares everything. Returns the number of rows that were looked for through a path, for a viewer.
    pub async fn all(&self) -> u64 {
        let mut checks = 0;
        for space in 0..SPACES {
            let rows = self.model.spaces[space].records.len() as u64;
            let users = (0..USERS).map(Who::User).chain([Who::Holder, Who::Anonymous]);
            for who in users {
                checks += rows * self.lists(space, who).await;
                for author in 0..USERS {
                    checks += rows * self.repo(space, who, author).await;
                }
            }
        }
        let public = belvedere_storage::store::testing::record_count(self.db).await;
        assert_eq!(public, 0, "a record of a space is in the index of public records");
        checks
    }

    fn viewer(&self, space: usize, who: Who, audience: &Did) -> Viewer {
        match who {
            Who::User(user) => viewer(user),
            Who::Holder => Viewer::Credential(Presented {
                space: self.uris[space].clone(),
                audience: audience.clone(),
                jti: "not revoked".to_owned(),
            }),
            Who::Anonymous => Viewer::Anonymous,
        }
    }

    fn sight(&self, space: usize, who: Who) -> Sight {
        match who {
            Who::User(user) => self.model.sight(space, user),
            Who::Holder => Sight::All,
            Who::Anonymous => Sight::Hidden,
        }
    }

    /// The lists of a whole space. Returns the number of paths.
    async fn lists(&self, space: usize, who: Who) -> u64 {
        let uri = &self.uris[space];
        let viewer = self.viewer(space, who, &uri.did);
        let sight = self.sight(space, who);
        let expected = match (sight, who) {
            (Sight::All, _) => self.model.records(space, None),
            (Sight::Own, Who::User(user)) => self.model.records(space, Some(user)),
            _ => Rows::new(),
        };
        for is_reverse in [false, true] {
            let query = query(None, is_reverse);
            match self.spaces.records(uri, &viewer, &query).await {
                Ok(found) => assert_eq!(
                    (rows(&found.records), sight >= Sight::Own),
                    (expected.clone(), true),
                    "{who:?} {space}"
                ),
                Err(error) => check_refusal(&error, sight, who),
            }
        }
        let note = Nsid::try_from(NOTE).unwrap();
        match self.spaces.count(uri, &viewer, None, &note).await {
            Ok(counted) => {
                assert_eq!((counted, sight >= Sight::Own), (expected.len() as u64, true), "{who:?} {space}");
            }
            Err(error) => check_refusal(&error, sight, who),
        }
        // The same page by page.
        let mut paged = query(None, false);
        paged.limit = 7;
        let mut found = Vec::new();
        while let Ok(page) = self.spaces.records(uri, &viewer, &paged).await {
            found.extend(page.records);
            if page.next.is_none() {
                break;
            }
            paged.after = page.next;
        }
        assert_eq!(rows(&found), expected, "{who:?} {space}");
        let sees = match who {
            Who::User(user) => self.model.sees(space, user),
            Who::Holder => true,
            Who::Anonymous => false,
        };
        match self.spaces.rights(uri, &viewer, &did(0)).await {
            Ok(_) => assert!(sees, "{who:?} {space}"),
            Err(error) => {
                assert!(!sees && matches!(error, SpaceError::NoSpace | SpaceError::Anonymous), "{error:?}");
            }
        }
        match self.spaces.repos(uri, &viewer, "", 1_000).await {
            Ok((listed, _)) => {
                let writers = self.model.spaces[space].writers.difference(&self.model.inactive);
                let expected: Vec<Did> = writers.map(|user| did(*user)).collect();
                let mut listed: Vec<Did> = listed.into_iter().map(|row| row.did).collect();
                listed.sort();
                assert_eq!((listed, sees), (expected, true), "{who:?} {space}");
            }
            Err(error) => {
                assert!(!sees && matches!(error, SpaceError::NoSpace | SpaceError::Anonymous), "{error:?}");
            }
        }
        5
    }

    /// The paths of one repo. Returns how many there are.
    async fn repo(&self, space: usize, who: Who, author: usize) -> u64 {
        let (uri, repo) = (&self.uris[space], did(author));
        let viewer = self.viewer(space, who, &repo);
        let sight = self.sight(space, who);
        let may_read = match (sight, who) {
            (Sight::All, _) => true,
            (Sight::Own, Who::User(user)) => user == author,
            _ => false,
        };
        let is_shown = may_read && !self.model.inactive.contains(&author);
        let expected = if is_shown { self.model.records(space, Some(author)) } else { Rows::new() };
        let has_repo = self.model.spaces[space].authors.contains(&author);
        let check = |error: SpaceError| match error {
            SpaceError::Hidden(_) => assert!(may_read && !is_shown, "{who:?}"),
            SpaceError::NoRepo if may_read => assert!(is_shown && !has_repo, "{who:?}"),
            SpaceError::NoRepo => assert_eq!(sight, Sight::Own, "{who:?}"),
            error => check_refusal(&error, sight, who),
        };

        match self.spaces.records(uri, &viewer, &query(Some(&repo), false)).await {
            Ok(found) => {
                assert_eq!(
                    (rows(&found.records), is_shown),
                    (expected.clone(), true),
                    "{who:?} {space} {author}"
                );
            }
            Err(error) => check(error),
        }
        match self.spaces.ops(uri, &viewer, &repo, &ops()).await {
            Ok((page, commit)) => {
                assert!(is_shown && has_repo, "{who:?} {space} {author}");
                let mut found = Rows::new();
                for logged in &page.ops {
                    if let Some(record) = &logged.record {
                        found.insert((author, key(&logged.op.path)), content(record));
                    }
                }
                assert_eq!(found, expected, "{who:?} {space} {author}");
                assert!(commit.is_some());
            }
            Err(error) => check(error),
        }
        match self.spaces.export(uri, &viewer, &repo).await {
            Ok(export) => {
                let parts: Vec<bytes::Bytes> = export.into_stream(true).try_collect().await.unwrap();
                let car = SpaceCar::read(parts.concat().into()).unwrap();
                let entries = car.entries().iter();
                let found: Rows = entries
                    .map(|(path, cid)| {
                        let json = car.json(*cid).unwrap();
                        ((author, key(path)), content(std::str::from_utf8(&json).unwrap()))
                    })
                    .collect();
                assert_eq!((found, is_shown), (expected.clone(), true), "{who:?} {space} {author}");
            }
            Err(error) => check(error),
        }
        // One record, with the author and without.
        for rkey in [0, 5] {
            let path = RecordPath::parse(&format!("{NOTE}/k{rkey}")).unwrap();
            match self.spaces.record(uri, &viewer, Some(&repo), &path).await {
                Ok(found) => {
                    assert_eq!(Some(&content(found.text.as_deref().unwrap())), expected.get(&(author, rkey)));
                }
                Err(SpaceError::NoRecord) => assert!(is_shown && !expected.contains_key(&(author, rkey))),
                Err(error) => check(error),
            }
        }
        4
    }
}

fn check_refusal(error: &SpaceError, sight: Sight, who: Who) {
    let is_right = match (sight, who) {
        (_, Who::Anonymous) => matches!(error, SpaceError::Anonymous),
        (Sight::Hidden, _) => matches!(error, SpaceError::NoSpace),
        (Sight::Space, _) => matches!(error, SpaceError::NotAuthorized(_)),
        (Sight::Own | Sight::All, _) => false,
    };
    assert!(is_right, "{who:?} {sight:?}: {error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

fn query(repo: Option<&Did>, is_reverse: bool) -> ListQuery {
    let (repo, collection, after) = (repo.cloned(), None, None);
    ListQuery { repo, collection, after, limit: 1_000, is_reverse, with_values: true, max_bytes: PAGE_BYTES }
}

fn ops() -> OpQuery {
    OpQuery { after: None, limit: 100_000, with_values: true }
}

fn rows(found: &[SpaceRecord]) -> Rows {
    let row = |record: &SpaceRecord| {
        let author = record.author.as_str().trim_start_matches("did:plc:user").parse().unwrap();
        ((author, key(&record.path)), content(record.text.as_deref().unwrap()))
    };
    found.iter().map(row).collect()
}

fn key(path: &RecordPath) -> usize {
    path.rkey.as_str().trim_start_matches('k').parse().unwrap()
}

/// The number of a record.
fn content(record: &str) -> u64 {
    let value: Value = serde_json::from_str(record).unwrap();
    let number = value["text"].as_str().unwrap().trim_start_matches("secret-").parse().unwrap();
    assert_eq!(value, text(number));
    number
}
