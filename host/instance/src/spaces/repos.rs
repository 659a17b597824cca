//! Reads repos of a space: commits, exports, the log, and the list of repos (spaces.md §6).

use super::{SpaceError, Spaces, Viewer};
use belvedere_protocol::atproto::{Did, Tid};
use belvedere_protocol::spaces::oplog::Position;
use belvedere_protocol::spaces::r10::{Commit, RepoEntry};
use belvedere_protocol::spaces::{SetHash, SpaceRepo, SpaceUri};
use belvedere_storage::store::spaces::oplog::{self, OpPage};
use belvedere_storage::store::spaces::repos::{self, RepoHost, RepoState};
use belvedere_storage::store::spaces::writers::{self, WriterRow};

/// A page of the log of a repo.
#[derive(Clone, Debug)]
pub struct OpQuery {
    pub after: Option<Position>,
    pub limit: u32,
    pub with_values: bool,
}

impl Spaces {
    /// The last commit of a repo, signed now.
    ///
    /// # Errors
    /// [`SpaceError::NoRepo`] when the author has written nothing, or the viewer may not read the repo.
    pub async fn commit(&self, uri: &SpaceUri, viewer: &Viewer, repo: &Did) -> Result<Commit, SpaceError> {
        let space = self.repo(uri, viewer, repo).await?.space;
        let state = repos::state(&self.core().db, space.id, repo).await?.ok_or(SpaceError::NoRepo)?;
        check_is_here(&state)?;
        self.sign(uri, repo, state.rev, &state.hash).await
    }

    /// A page of the log of a repo, with the commit on the page that has its end.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn ops(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        repo: &Did,
        query: &OpQuery,
    ) -> Result<(OpPage, Option<Commit>), SpaceError> {
        let space = self.repo(uri, viewer, repo).await?.space;
        let db = &self.core().db;
        let _permit = db.read_permit(&viewer.tenant(uri)).await?;
        let page = oplog::page(db, space.id, repo, query.after, query.limit, query.with_values).await?;
        let page = page.ok_or(SpaceError::NoRepo)?;
        check_is_here(&page.state)?;
        if page.has_more {
            return Ok((page, None));
        }
        let commit = self.sign(uri, repo, page.state.rev, &page.state.hash).await?;
        Ok((page, Some(commit)))
    }

    /// Whether the log of a repo goes on after a commit; if not, a reader that stopped there reads the whole repo.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn has_commit(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        repo: &Did,
        rev: Tid,
    ) -> Result<bool, SpaceError> {
        let space = self.repo(uri, viewer, repo).await?.space;
        Ok(oplog::has_commit(&self.core().db, space.id, repo, rev).await?)
    }

    /// A page of the repos whose authors are writers of a space that this instance hosts, in the order of changes, and the rev of
    /// the space.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`] for someone who may not know that the space exists.
    pub async fn repos(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        after: &str,
        limit: u32,
    ) -> Result<(Vec<RepoEntry>, Option<Tid>), SpaceError> {
        let space = self.visible(uri, viewer).await?;
        let rows = writers::page(&self.core().db, space.id, after, limit).await?;
        let entry = |row: WriterRow| {
            let WriterRow { author: did, rev, hash, space_rev, host } = row;
            RepoEntry { did, rev, hash, space_rev, host: self.named_host(host) }
        };
        Ok((rows.into_iter().map(entry).collect(), space.rev))
    }

    /// The DID of a host, as other servers find it; `None` for a PDS.
    pub(super) fn named_host(&self, host: RepoHost) -> Option<Did> {
        match host {
            RepoHost::Here => Some(self.0.identity.did()),
            RepoHost::Named(host) => Some(host),
            RepoHost::Unnamed => None,
        }
    }

    /// A commit by this instance for an author whose repo it holds. Each response has a fresh one.
    pub(super) async fn sign(
        &self,
        space: &SpaceUri,
        author: &Did,
        rev: Tid,
        hash: &SetHash,
    ) -> Result<Commit, SpaceError> {
        let repo = SpaceRepo { space, author };
        Ok(Commit::sign(repo, rev, hash.digest(), self.core().random.bytes(), self.key().await?))
    }
}

/// Checks that a repo is here: only its host signs commits to it.
///
/// # Errors
/// [`SpaceError::NoRepo`] for a copy.
pub(super) fn check_is_here(state: &RepoState) -> Result<(), SpaceError> {
    if state.is_copy() { Err(SpaceError::NoRepo) } else { Ok(()) }
}
