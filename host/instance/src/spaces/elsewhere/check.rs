//! Reads the list of repos of a followed space from the position of the last time, so that a notice that was lost is missed for half a
//! minute only (spaces-delta.md §1, §4).

use std::sync::Arc;

use serde_json::json;
use url::form_urlencoded;

use super::super::Spaces;
use super::super::delivery::pause_seconds;
use super::super::held_credential::HeldCredential;
use super::super::services::{Proof, ServiceCall, ServiceError, accepted};
use super::{ANSWER, ATTEMPT_TIME, Failure, NoCredential, count};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::spaces::r10::RepoEntry;
use belvedere_protocol::spaces::r10::token::host_of;
use belvedere_storage::store::StoreError;
use belvedere_storage::store::spaces::follows::{self, FollowRow};
use belvedere_storage::store::spaces::space::SpaceRow;
use belvedere_storage::store::spaces::writers::Listed;

/// Time between two checks of a space.
const CHECK_SECONDS: i64 = 30;

/// The same until all its repos were read once.
const INCOMPLETE_SECONDS: i64 = 1;

/// Repos of a page.
const PAGE: usize = 1_000;

/// Bytes of a cursor. Those of this server have 13.
const MAX_CURSOR: usize = 1_000;

/// Time after which the list is read from its start again.
const RELIST_SECONDS: i64 = 24 * 60 * 60;

/// Followers whose credentials are tried.
const MAX_FOLLOWERS: u32 = 5;

/// The rest of a registration's time in which it is renewed.
const RENEWAL_SECONDS: i64 = 12 * 60 * 60;

/// Time for which a registration counts; its host keeps it for a day.
const REGISTERED_SECONDS: i64 = 24 * 60 * 60;

/// Time after which a registration that was refused is tried again. The checks replace the notices.
const UNREGISTERED_SECONDS: i64 = RENEWAL_SECONDS + 10 * 60;

impl Spaces {
    /// Checks a followed space, and stores when the next check is due.
    pub(super) async fn check_followed(
        &self,
        space: &SpaceRow,
        row: &FollowRow,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let checked = tokio::time::timeout(ATTEMPT_TIME, self.read_list(space, row)).await;
        let checked = checked.unwrap_or(Err(Failure::Answer("its list of repos takes too long")));
        let (db, now) = (&self.core().db, self.core().clock.now());
        if let Err(Failure::NoCredential(error)) = &checked
            && error.is_of_deleted_space()
        {
            tracing::info!(space = %space.uri, "a followed space is deleted at its host; its copies are removed");
            return follows::end_all(db, space.id).await;
        }
        let (has_failed, seconds) = match checked {
            Ok(is_complete) => (false, if is_complete { CHECK_SECONDS } else { INCOMPLETE_SECONDS }),
            Err(Failure::Store(error)) if !error.is_of_value() => return Err(error),
            Err(error) => {
                if matches!(error, Failure::Service(ServiceError::Refused { status: 400, .. })) {
                    // It may not know the cursor any more.
                    follows::restart(db, space.id, now).await?;
                }
                tracing::info!(space = %space.uri, %error, "a followed space can't be checked");
                (true, pause_seconds(row.failures))
            }
        };
        count("list", if has_failed { "failed" } else { "read" });
        follows::end_check(db, space.id, until, has_failed, now.plus_seconds(seconds)).await
    }

    /// Reads the list to its end. Returns whether there is no repo in it that was never tried to be read.
    async fn read_list(&self, space: &SpaceRow, row: &FollowRow) -> Result<bool, Failure> {
        let credential = self.reader(space).await?;
        let host = host_of(&space.uri.did);
        let endpoint = self.0.services.space_host(&space.uri.did).await?;
        let call = ServiceCall { service: &host, endpoint: &endpoint, method: "", limits: ANSWER };
        self.register(space, row, &credential, call).await?;
        let (db, clock) = (&self.core().db, &self.core().clock);
        let mut cursor = row.cursor.clone();
        // A repo is listed again that was left out when its turn came: that of an account which was not active then.
        if row.listed_at < clock.now().plus_seconds(-RELIST_SECONDS) {
            follows::restart(db, space.id, clock.now()).await?;
            cursor = None;
        }
        loop {
            let (page, next) = self.page(space, &credential, call, cursor.as_deref()).await?;
            // An empty page has no cursor: the old one stays. A host whose cursor does not move has nothing more.
            let next = next.filter(|next| Some(next) != cursor.as_ref());
            let moves = (cursor.as_deref(), next.as_deref().or(cursor.as_deref()));
            if !follows::store_page(db, space.id, &page, moves, clock.now()).await? {
                return Err(Failure::Answer("another host has read its list meanwhile"));
            }
            if !page.is_empty() {
                self.0.changed.notify_one();
            }
            if next.is_none() {
                break;
            }
            cursor = next;
        }
        Ok(follows::complete(db, space.id, cursor.as_deref()).await?)
    }

    /// A page of the list, and its cursor.
    async fn page(
        &self,
        space: &SpaceRow,
        credential: &HeldCredential,
        call: ServiceCall<'_>,
        cursor: Option<&str>,
    ) -> Result<(Vec<Listed>, Option<String>), Failure> {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("space", &space.uri.to_string())
            .append_pair("limit", &PAGE.to_string())
            .extend_pairs(cursor.map(|cursor| ("cursor", cursor)))
            .finish();
        let call = ServiceCall { method: "com.atproto.space.listRepos", ..call };
        let proof = Proof::Credential(credential, &space.uri.did);
        let answer = accepted(self.0.services.get(call, proof, &query).await?)?;
        let page = RepoEntry::read_page(&answer.body).filter(|(_, cursor)| {
            // No database stores U+0000, and the cursor is sent back in a URL.
            cursor.as_ref().is_none_or(|cursor| cursor.len() <= MAX_CURSOR && !cursor.contains('\0'))
        });
        let page = page.filter(|(entries, _)| entries.len() <= PAGE);
        let (entries, cursor) = page.ok_or(Failure::Answer("its list of repos is malformed"))?;
        let listed = |entry: RepoEntry| {
            let RepoEntry { did: author, rev, hash, space_rev, host } = entry;
            Listed { author, rev, hash, host, space_rev }
        };
        Ok((entries.into_iter().map(listed).collect(), cursor))
    }

    /// Registers this instance for the notices of a space. Without them the checks find what changes.
    async fn register(
        &self,
        space: &SpaceRow,
        row: &FollowRow,
        credential: &HeldCredential,
        call: ServiceCall<'_>,
    ) -> Result<(), StoreError> {
        let now = self.core().clock.now();
        let Some(did) = self.0.identity.signing_did() else { return Ok(()) };
        if row.registered_until > now.plus_seconds(RENEWAL_SECONDS) {
            return Ok(());
        }
        let call = ServiceCall { method: "com.atproto.space.registerNotify", ..call };
        let body = json!({ "space": space.uri.to_string(), "service": host_of(&did) });
        let proof = Proof::Credential(credential, &space.uri.did);
        let seconds = match self.0.services.post(call, proof, &body).await {
            Ok(_) => REGISTERED_SECONDS,
            Err(error) => {
                tracing::info!(space = %space.uri, %error, "a followed space sends no notices; it is checked instead");
                UNREGISTERED_SECONDS
            }
        };
        follows::registered(&self.core().db, space.id, now.plus_seconds(seconds)).await
    }

    /// A credential for a space: that of a follower who gets one, or this instance's own.
    pub(super) async fn reader(&self, space: &SpaceRow) -> Result<Arc<HeldCredential>, Failure> {
        if space.is_hosted {
            return Ok(self.credential(&space.uri, None).await?);
        }
        let mut last = NoCredential::NoSession;
        let db = &self.core().db;
        for follower in follows::followers(db, space.id, MAX_FOLLOWERS).await? {
            match self.credential(&space.uri, Some(&follower)).await {
                Ok(held) => return Ok(held),
                Err(error) if error.is_of_deleted_space() => return Err(error.into()),
                Err(error) => {
                    follows::refused(db, space.id, &follower, self.core().clock.now()).await?;
                    last = error;
                }
            }
        }
        Err(last.into())
    }
}
