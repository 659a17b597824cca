//! Reads records of a space (spaces.md §5.2).

use super::access::Readers;
use super::{SpaceError, Spaces, Viewer};
use belvedere_protocol::atproto::{Did, Nsid, Tid};
use belvedere_protocol::spaces::{RecordPath, SpaceUri};
use belvedere_storage::store::spaces::lists::{self, List, Page, Place};
use belvedere_storage::store::spaces::records::{self, Authors, SpaceRecord};

/// A list of records.
#[derive(Clone, Debug)]
pub struct ListQuery {
    /// `None`: of all authors whom the viewer may read.
    pub repo: Option<Did>,
    /// `None`: of all collections.
    pub collection: Option<Nsid>,
    pub after: Option<Place>,
    pub limit: u32,
    pub is_reverse: bool,
    pub with_values: bool,
    /// Bytes of records after which the page ends.
    pub max_bytes: usize,
}

impl ListQuery {
    fn of<'a>(&'a self, authors: Authors<'a>) -> List<'a> {
        List {
            authors,
            collection: self.collection.as_ref(),
            is_reverse: self.is_reverse,
            with_text: self.with_values,
            after: self.after.as_ref(),
            limit: self.limit,
            max_bytes: self.max_bytes,
        }
    }
}

impl Spaces {
    /// A record. Without `repo` only if one author has a record with this path.
    ///
    /// # Errors
    /// [`SpaceError::NoRecord`]; [`SpaceError::NoRepo`] for a repo that the viewer may not read.
    pub async fn record(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        repo: Option<&Did>,
        path: &RecordPath,
    ) -> Result<SpaceRecord, SpaceError> {
        let readers = self.readable(uri, viewer, repo, Some(&path.collection)).await?;
        let (db, space) = (&self.core().db, readers.space.id);
        let author = match readers.authors(repo)? {
            Authors::One(author) => author.clone(),
            Authors::All => {
                let mut authors = records::authors_of(db, space, path).await?;
                let author = authors.pop().ok_or(SpaceError::NoRecord)?;
                if !authors.is_empty() {
                    return Err(SpaceError::Ambiguous);
                }
                author
            }
        };
        records::get(db, space, &author, path).await?.ok_or(SpaceError::NoRecord)
    }

    /// A page of the records that the viewer may read, in the order of their paths.
    ///
    /// # Errors
    /// [`SpaceError::NoRepo`] for a repo that the viewer may not read.
    pub async fn records(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        query: &ListQuery,
    ) -> Result<Page, SpaceError> {
        let (db, tenant) = (&self.core().db, viewer.tenant(uri));
        // A page may have megabytes: those of one viewer leave connections to others.
        if let (Viewer::Credential(presented), None) = (viewer, &query.repo) {
            presented.check_space(uri)?;
            let _permit = db.read_permit(&tenant).await?;
            let found = lists::page_of_credential(db, uri, &presented.jti, &query.of(Authors::All)).await?;
            let (opening, page) = found.ok_or(SpaceError::NoSpace)?;
            presented.check_opens(opening, None)?;
            return Ok(page);
        }
        let readers = self.readable(uri, viewer, query.repo.as_ref(), query.collection.as_ref()).await?;
        let list = query.of(readers.authors(query.repo.as_ref())?);
        let _permit = db.read_permit(&tenant).await?;
        Ok(lists::page(db, readers.space.id, &list).await?)
    }

    /// The number of records of a collection that the viewer may read. It reads each of them.
    ///
    /// # Errors
    /// [`SpaceError::NoRepo`] for a repo that the viewer may not read.
    pub async fn count(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        repo: Option<&Did>,
        collection: &Nsid,
    ) -> Result<u64, SpaceError> {
        let readers = self.readable(uri, viewer, repo, Some(collection)).await?;
        let db = &self.core().db;
        let _permit = db.scan_permit(&viewer.tenant(uri)).await?;
        Ok(records::count(db, readers.space.id, readers.authors(repo)?, Some(collection)).await?)
    }

    /// A page of the CIDs of blobs that the records of a repo refer to, sorted. `after`: the last one of the page before.
    ///
    /// # Errors
    /// [`SpaceError::NoRepo`] for a repo that the viewer may not read.
    pub async fn blobs(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        repo: &Did,
        since: Option<Tid>,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, SpaceError> {
        let space = self.repo(uri, viewer, repo).await?.space.id;
        Ok(records::blobs(&self.core().db, space, repo, since, after, limit).await?)
    }

    /// Whether a record of a repo refers to a blob.
    ///
    /// # Errors
    /// [`SpaceError::NoRepo`] for a repo that the viewer may not read.
    pub async fn has_blob(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        repo: &Did,
        cid: &str,
    ) -> Result<bool, SpaceError> {
        let space = self.repo(uri, viewer, repo).await?.space.id;
        Ok(records::has_blob(&self.core().db, space, repo, cid).await?)
    }

    /// A space in which the viewer may read a repo.
    pub(super) async fn repo(
        &self,
        uri: &SpaceUri,
        viewer: &Viewer,
        repo: &Did,
    ) -> Result<Readers, SpaceError> {
        let readers = self.readable(uri, viewer, Some(repo), None).await?;
        readers.authors(Some(repo))?;
        Ok(readers)
    }
}
