//! Random histories: members, former members and others read and write, and each answer is that of the model.

use super::checks::Checker;
use super::model::{Model, SPACES, Space, USERS};
use super::{create, did, members_only, room, viewer, write};
use crate::spaces::{InviteRequest, NamedMember, SpaceError, Spaces, WriteKind};
use belvedere_base::clock::Clock;
use belvedere_base::random::Random;
use belvedere_protocol::spaces::SpaceUri;
use belvedere_protocol::spaces::access::{MemberAccess, Policy, Readable};
use belvedere_storage::store::index::AccountStatus;
use belvedere_storage::store::spaces::members::IfMember;
use belvedere_storage::store::spaces::settings::SettingsChange;
use belvedere_storage::store::{Db, testing};

const OPERATIONS: usize = 10_000;
/// Checks of whether a viewer gets a row through a path.
const CHECKS: u64 = 1_000_000;
const ROUNDS: usize = 20;
const KEYS: usize = 12;

#[tokio::test]
async fn sqlite() {
    Box::pin(run(testing::sqlite().await, 1)).await;
}

#[tokio::test]
async fn postgres() {
    Box::pin(run(testing::postgres().await, 2)).await;
}

async fn run(db: impl std::ops::Deref<Target = Db>, seed: u64) {
    let (spaces, clock) = room(&db);
    let mut history = History {
        random: Random::seeded(seed),
        uris: Vec::new(),
        model: Model::default(),
        next: 0,
        spaces,
        clock,
        db: db.clone(),
    };
    for space in 0..SPACES {
        let creator = space % 3;
        history.uris.push(create(&history.spaces, creator, &format!("s{space}")).await);
        history.model.spaces.push(Space::of(creator));
    }
    let mut checks = 0;
    for operation in 0..OPERATIONS {
        history.clock.set(history.clock.now().plus_seconds(10));
        history.step().await;
        if operation % (OPERATIONS / ROUNDS) == OPERATIONS / ROUNDS - 1 {
            let (model, uris) = (&history.model, &history.uris);
            checks += Checker { spaces: &history.spaces, db: &db, model, uris }.all().await;
        }
    }
    assert!(checks >= CHECKS, "only {checks} checks");
}

struct History {
    random: Random,
    spaces: Spaces,
    clock: Clock,
    db: Db,
    uris: Vec<SpaceUri>,
    model: Model,
    /// The number of the next record.
    next: u64,
}

impl History {
    /// A number below `end`.
    fn below(&self, end: usize) -> usize {
        (self.random.u64() % end as u64) as usize
    }

    fn one_in(&self, n: usize) -> bool {
        self.below(n) == 0
    }

    async fn step(&mut self) {
        let (space, user) = (self.below(SPACES), self.below(USERS));
        match self.below(100) {
            0..70 => self.write(space, user).await,
            70..80 => self.put_member(space, user).await,
            80..86 => self.remove_member(space, user).await,
            86..91 => self.include(space, user).await,
            91..95 => self.invite(space, user).await,
            95..98 => self.change_policies(space, user).await,
            _ => self.change_status(user).await,
        }
    }

    async fn write(&mut self, space: usize, user: usize) {
        let key = self.below(KEYS);
        let kinds = [WriteKind::Create, WriteKind::Put, WriteKind::Put, WriteKind::Update, WriteKind::Delete];
        let kind = kinds[self.below(kinds.len())];
        self.next += 1;
        let request = write(kind, &format!("k{key}"), self.next);
        let written = self.spaces.write(&self.uris[space], &viewer(user), request).await;
        if !self.model.writes(space, user) {
            let sees = self.model.sees(space, user);
            return assert_refused(written.unwrap_err(), sees, |error| {
                matches!(error, SpaceError::NotAuthorized(_))
            });
        }
        let place = (user, key);
        let stored = &mut self.model.spaces[space];
        let is_there = stored.records.contains_key(&place);
        match (kind, is_there) {
            (WriteKind::Create, true) => {
                assert!(matches!(written, Err(SpaceError::RecordExists)), "{written:?}");
                return;
            }
            (WriteKind::Update | WriteKind::Delete, false) => {
                assert!(matches!(written, Err(SpaceError::NoRecord)), "{written:?}");
                return;
            }
            (WriteKind::Delete, true) => stored.records.remove(&place),
            _ => stored.records.insert(place, self.next),
        };
        written.unwrap();
        stored.writers.insert(user);
        stored.authors.insert(user);
    }

    fn access(&self) -> MemberAccess {
        let reads = [Readable::Nothing, Readable::Own, Readable::Everything, Readable::Everything];
        MemberAccess { reads: reads[self.below(reads.len())], writes: self.one_in(2) }
    }

    /// The user who administers a space, most of the time.
    fn administrator(&self, space: usize, user: usize) -> usize {
        if self.one_in(4) { user } else { self.model.spaces[space].creator }
    }

    /// Whether a change was made by an administrator; else checks the refusal.
    fn is_administered<T: std::fmt::Debug>(
        &self,
        space: usize,
        by: usize,
        done: Result<T, SpaceError>,
    ) -> bool {
        if self.model.spaces[space].creator == by {
            done.unwrap();
            return true;
        }
        let sees = self.model.sees(space, by);
        assert_refused(done.unwrap_err(), sees, |error| matches!(error, SpaceError::NotAdministrator));
        false
    }

    async fn put_member(&mut self, space: usize, user: usize) {
        let (by, member) = (self.administrator(space, user), self.below(USERS));
        if member == self.model.spaces[space].creator {
            return;
        }
        let (named, access) = (NamedMember::Account(did(member)), self.access());
        let uri = &self.uris[space];
        let put = self.spaces.put_member(uri, &viewer(by), &named, access, IfMember::Replace).await;
        if self.is_administered(space, by, put) {
            self.model.spaces[space].members.insert(member, access);
        }
    }

    async fn remove_member(&mut self, space: usize, user: usize) {
        let by = self.administrator(space, user);
        let creator = self.model.spaces[space].creator;
        let members: Vec<usize> =
            self.model.spaces[space].members.keys().copied().filter(|member| *member != creator).collect();
        if members.is_empty() {
            return;
        }
        let member = members[self.below(members.len())];
        let named = NamedMember::Account(did(member));
        let removed = self.spaces.remove_member(&self.uris[space], &viewer(by), &named).await;
        if self.is_administered(space, by, removed) {
            self.model.spaces[space].members.remove(&member);
        }
    }

    /// Includes the members of another space, or ends that.
    async fn include(&mut self, space: usize, user: usize) {
        let (by, target) = (self.administrator(space, user), self.below(SPACES));
        if target == space {
            return;
        }
        let (named, uri) = (NamedMember::MembersOf(self.uris[target].clone()), &self.uris[space]);
        if self.model.spaces[space].includes.contains_key(&target) {
            let removed = self.spaces.remove_member(uri, &viewer(by), &named).await;
            if self.is_administered(space, by, removed) {
                self.model.spaces[space].includes.remove(&target);
            }
            return;
        }
        let access = self.access();
        let uri = &self.uris[space];
        let put = self.spaces.put_member(uri, &viewer(by), &named, access, IfMember::Keep).await;
        if self.model.spaces[space].creator == by && !self.model.sees(target, by) {
            assert!(matches!(put, Err(SpaceError::NoSpace)), "{put:?}");
        } else if self.is_administered(space, by, put) {
            self.model.spaces[space].includes.insert(target, access);
        }
    }

    async fn invite(&mut self, space: usize, user: usize) {
        let (by, access) = (self.administrator(space, user), self.access());
        let request = InviteRequest { access, max_uses: Some(1), expires_at: None };
        let made = self.spaces.create_invite(&self.uris[space], &viewer(by), request).await;
        let token = made.as_ref().map(|made| made.token.clone()).unwrap_or_default();
        if !self.is_administered(space, by, made) {
            return;
        }
        let joined = self.spaces.accept_invite(&viewer(user), &token).await;
        if self.model.spaces[space].members.contains_key(&user) {
            assert!(matches!(joined, Err(SpaceError::Conflict(_))), "{joined:?}");
        } else {
            assert_eq!(joined.unwrap(), (self.uris[space].clone(), access));
            self.model.spaces[space].members.insert(user, access);
        }
        let again = self.spaces.accept_invite(&viewer((user + 1) % USERS), &token).await;
        if again.is_ok() {
            // The first one was a member, so that the invite was left.
            self.model.spaces[space].members.insert((user + 1) % USERS, access);
        }
    }

    async fn change_policies(&mut self, space: usize, user: usize) {
        let by = self.administrator(space, user);
        // Mostly for members, else there is little to hide.
        let (reads, writes) = (self.one_in(5), self.one_in(5));
        let policy = |is_public| if is_public { Policy::Public } else { members_only().read_policy };
        let change = SettingsChange {
            read_policy: Some(policy(reads)),
            write_policy: Some(policy(writes)),
            ..SettingsChange::default()
        };
        let changed = self.spaces.update(&self.uris[space], &viewer(by), &change).await;
        if self.is_administered(space, by, changed) {
            let space = &mut self.model.spaces[space];
            (space.reads_public, space.writes_public) = (reads, writes);
        }
    }

    /// Deactivates an account, or activates it again.
    async fn change_status(&mut self, user: usize) {
        let was_inactive = self.model.inactive.remove(&user);
        if !was_inactive {
            self.model.inactive.insert(user);
        }
        let status = if was_inactive { AccountStatus::Active } else { AccountStatus::Deactivated };
        testing::add_account(&self.db, &did(user)).await;
        testing::set_account_status(&self.db, &did(user), status).await;
    }
}

/// A refusal says that the space does not exist, unless the user may know that it does.
fn assert_refused(error: SpaceError, sees: bool, is_expected: impl Fn(&SpaceError) -> bool) {
    if sees {
        assert!(is_expected(&error), "{error:?}");
    } else {
        assert!(matches!(error, SpaceError::NoSpace), "{error:?}");
    }
    assert!(!error.to_string().contains("secret"), "{error}");
}
