//! Decides whether a read is one by an index or a scan.
//!
//! A read that leaves hidden records out passes over few of them as a rule, and over as many as an author has labelled at worst. No
//! look at an index tells which. So it runs as a read by an index for a short time, and what takes longer begins again as a scan.

use std::time::Duration;

use super::{Db, StoreError};
use crate::query::Hidden;
use belvedere_web::fair_share::Tenant;

/// Time for which a read of [`ReadCost::Unknown`] may have the permit of a read by an index: many times what a page of a timeline takes.
const INDEX_READ_TIME_LIMIT: Duration = Duration::from_millis(100);

/// The number of records that a read passes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum ReadCost {
    Few,
    /// Few as a rule.
    Unknown,
    Many,
}

impl ReadCost {
    /// The cost of a read that passes over few other records than the hidden ones.
    pub(in crate::store) fn of(hidden: &Hidden) -> Self {
        if *hidden == Hidden::NONE { Self::Few } else { Self::Unknown }
    }

    /// The cost of a read that is a scan if `scans`.
    pub(in crate::store) fn or_many(self, scans: bool) -> Self {
        if scans { Self::Many } else { self }
    }
}

impl Db {
    /// Runs a read at the expense of a tenant. `cost` is a look into an index, which is a read itself. `by_index` runs on the pool of
    /// reads, and `scan`, which is the same read, on that of scans.
    ///
    /// # Errors
    /// [`StoreError::Busy`], and those of the read.
    pub(in crate::store) async fn read_or_scan<T>(
        &self,
        tenant: &Tenant,
        cost: impl Future<Output = Result<ReadCost, StoreError>>,
        by_index: impl Future<Output = Result<T, StoreError>>,
        scan: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let permit = self.read_permit(tenant).await?;
        match cost.await? {
            ReadCost::Few => return by_index.await,
            ReadCost::Unknown => {
                if let Ok(read) = tokio::time::timeout(INDEX_READ_TIME_LIMIT, by_index).await {
                    return read;
                }
            }
            ReadCost::Many => {}
        }
        drop(permit);
        let _permit = self.scan_permit(tenant).await?;
        scan.await
    }
}
