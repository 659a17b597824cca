//! The space on the disk that the database grows on.

use super::Db;

/// In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub total: u64,
    /// The part that this process may use.
    pub free: u64,
}

impl Db {
    /// The space of the file system of the SQLite file; `None` on PostgreSQL, whose disk is its server's, and when it can't be
    /// determined.
    pub async fn disk_space(&self) -> Option<DiskSpace> {
        let Self::Sqlite(db) = self else { return None };
        let path = db.reader.connect_options().get_filename().to_owned();
        // A network file system may not answer at once.
        let found = tokio::task::spawn_blocking(move || rustix::fs::statvfs(&path)).await.ok()?.ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(DiskSpace { total: bytes(found.f_blocks), free: bytes(found.f_bavail) })
    }
}
