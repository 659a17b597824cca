//! The records of the example apps in number: half as many accounts as posts, few of which have most posts, likes and
//! followers. All are determined by their number.

use belvedere_standins::jetstream::{Frame, Place, synthetic_did, tid};
use serde_json::{Value, json};

/// The records among which each kind has a fixed number.
const BLOCK: usize = 20;
const POSTS: usize = 8;
const LIKES: usize = 8;
const FOLLOWS: usize = 2;

/// The accounts that the reader follows, and how many of them never post.
pub const FOLLOWED: usize = 2_000;
const INACTIVE: usize = 200;

/// One like in so many is of the first post.
const MOST_LIKED: u64 = 4;

const POST: &str = "app.bsky.feed.post";
const LINK: &str = "fyi.unravel.frontpage.post";
/// The records of the app whose lexicons are stored last.
pub const EVENT: &str = "community.lexicon.calendar.event";

/// An index of so many records.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub records: usize,
    pub first_time_us: i64,
}

/// A record with its address.
struct Written {
    account: usize,
    collection: &'static str,
    rkey: String,
    record: Value,
}

/// A well-mixed number for a record and a purpose (splitmix64).
fn mixed(i: usize, purpose: u64) -> u64 {
    let mut z = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(purpose << 32);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One of the first `end` numbers, low ones far more often.
fn skewed(i: usize, purpose: u64, end: usize) -> usize {
    let uniform = (mixed(i, purpose) % (1 << 32)) as f64 / (1_u64 << 32) as f64;
    ((end as f64) * uniform.powi(4)) as usize
}

fn datetime(minutes: usize) -> String {
    let (day, minute) = (minutes / 1440, minutes % 1440);
    let (year, month, day) = (2020 + day / 336, 1 + day % 336 / 28, 1 + day % 28);
    format!("{year}-{month:02}-{day:02}T{:02}:{:02}:00.000Z", minute / 60, minute % 60)
}

fn uri(account: usize, collection: &str, n: usize) -> String {
    format!("at://{}/{collection}/{}", synthetic_did(account), tid(n as u64 + 1, 0))
}

impl Data {
    pub fn accounts(self) -> usize {
        self.records / 10
    }

    /// The accounts from this one on write no posts.
    fn active(self) -> usize {
        self.accounts() / 10 * 6
    }

    /// The account that reads its timeline.
    pub fn reader(self) -> usize {
        self.accounts() - 1
    }

    /// The author of a post.
    pub fn author(self, post: usize) -> usize {
        skewed(post, 1, self.active())
    }

    pub fn post_uri(self, post: usize) -> String {
        uri(self.author(post), POST, post)
    }

    fn posts(self) -> usize {
        self.records / BLOCK * POSTS
    }

    /// A post with about so many replies.
    pub fn post_with_replies(self, replies: usize) -> usize {
        // The density of `skewed`: the number n has a share of n^(-3/4) / 4 end^(1/4).
        let (all, posts) = (self.posts() as f64 / 2.0, self.posts() as f64);
        (all / (4.0 * posts.powf(0.25) * replies as f64)).powf(4.0 / 3.0) as usize
    }

    /// The accounts whose pages are read, from the most active one on.
    pub fn sample(self, of: usize) -> impl Iterator<Item = usize> {
        (0..of).map(move |n| skewed(n, 90, self.active()))
    }

    fn followed(self, n: usize) -> usize {
        if n < INACTIVE { self.active() + 7 * n } else { skewed(n, 2, self.active()) }
    }

    fn record(self, i: usize) -> Written {
        let (block, slot) = (i / BLOCK, i % BLOCK);
        let strong = |uri: String| json!({ "uri": uri, "cid": CID });
        let created = datetime(block);
        let written = |account: usize, collection: &'static str, n: usize, mut record: Value| {
            record["$type"] = collection.into();
            record["createdAt"] = created.clone().into();
            Written { account, collection, rkey: tid(n as u64 + 1, 0), record }
        };
        match slot {
            0..POSTS => {
                let post = block * POSTS + slot;
                let mut record =
                    json!({ "text": format!("Post {post} about {}", mixed(i, 3) % 10_000), "langs": ["en"] });
                if post % 2 == 1 {
                    let parent = strong(self.post_uri(skewed(i, 4, post)));
                    record["reply"] = json!({ "root": parent, "parent": parent });
                }
                written(self.author(post), POST, post, record)
            }
            8..16 => {
                let like = block * LIKES + slot - POSTS;
                let is_of_first = mixed(i, 5).is_multiple_of(MOST_LIKED);
                let post = if is_of_first { 0 } else { skewed(i, 6, self.posts()) };
                let account = mixed(i, 7) as usize % self.accounts();
                written(
                    account,
                    "app.bsky.feed.like",
                    like,
                    json!({ "subject": strong(self.post_uri(post)) }),
                )
            }
            16..18 => {
                let follow = block * FOLLOWS + slot - POSTS - LIKES;
                let (account, subject) = if follow < FOLLOWED {
                    (self.reader(), self.followed(follow))
                } else {
                    (mixed(i, 8) as usize % self.accounts(), skewed(i, 9, self.accounts()))
                };
                written(
                    account,
                    "app.bsky.graph.follow",
                    follow,
                    json!({ "subject": synthetic_did(subject) }),
                )
            }
            18 => {
                let mut profile = written(
                    block,
                    "app.bsky.actor.profile",
                    0,
                    json!({ "displayName": format!("Account {block}") }),
                );
                "self".clone_into(&mut profile.rkey);
                profile
            }
            _ => self.of_other_apps(i, written),
        }
    }

    /// Links and votes, events and answers.
    fn of_other_apps(
        self,
        i: usize,
        written: impl Fn(usize, &'static str, usize, Value) -> Written,
    ) -> Written {
        let n = i / BLOCK / 4;
        let account = |purpose| mixed(i, purpose) as usize % self.active();
        let subject = |collection: &str, of: usize, purpose| json!({ "subject": { "uri": uri(mixed(of, purpose) as usize % self.active(), collection, of), "cid": CID } });
        let owner = |of: usize, purpose| mixed(of, purpose) as usize % self.active();
        match i / BLOCK % 4 {
            0 => written(
                owner(n, 20),
                LINK,
                n,
                json!({ "title": format!("Link {n}"), "url": format!("https://example.com/{n}") }),
            ),
            1 => {
                written(account(21), "fyi.unravel.frontpage.vote", n, subject(LINK, skewed(i, 22, n + 1), 20))
            }
            2 => {
                let starts = datetime(mixed(n, 23) as usize % 4_000_000);
                written(owner(n, 24), EVENT, n, json!({ "name": format!("Event {n}"), "startsAt": starts }))
            }
            _ => {
                let mut answer = subject(EVENT, skewed(i, 25, n + 1), 24);
                answer["status"] = "community.lexicon.calendar.rsvp#going".into();
                written(account(26), "community.lexicon.calendar.rsvp", n, answer)
            }
        }
    }

    /// The events that create the records of a range, one microsecond apart.
    pub fn frames(self, range: std::ops::Range<usize>) -> impl Iterator<Item = Frame> {
        range.map(move |i| {
            let Written { account, collection, rkey, record } = self.record(i);
            let (time_us, did) = (self.first_time_us + i as i64, synthetic_did(account));
            let rev = tid(time_us as u64, 0);
            Frame::create(time_us, Place { did: &did, collection, rkey: &rkey, rev: &rev }, &record)
        })
    }
}

/// Links name records by URI; the CID in them is not compared.
const CID: &str = "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a";
