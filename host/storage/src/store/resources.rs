//! The resources of the machine that an open database may take.

use super::intern::Interner;

/// Connections and memory of an open database.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    /// Sizes the PostgreSQL pool or the SQLite reader pool.
    pub connections: u32,
    /// SQLite: MiB of pages that all connections together keep in memory.
    pub page_cache_mib: u32,
    /// DIDs whose ids are kept in memory, and as many ids whose DIDs are.
    pub cached_accounts: usize,
}

impl Resources {
    /// Little memory: enough for a command or a test.
    pub fn little(connections: u32) -> Self {
        Self { connections, page_cache_mib: 16, cached_accounts: 1_024 }
    }

    /// `shards`: the numbers of the database's shards, if it is in shards.
    pub(super) fn interner(self, shards: &[u8]) -> Interner {
        Interner::new(self.cached_accounts, shards)
    }

    /// The value of `PRAGMA cache_size` for the writer (negative: KiB). It has half of the memory: a commit touches pages
    /// all over a large index, and dirty ones stay there until then.
    pub(super) fn writer_cache(self) -> String {
        kib(u64::from(self.page_cache_mib) * 1024 / 2)
    }

    /// The value of `PRAGMA cache_size` for each of some readers.
    pub(super) fn reader_cache(self, readers: u32) -> String {
        kib(u64::from(self.page_cache_mib) * 1024 / 2 / u64::from(readers.max(1)))
    }
}

/// Number of prepared statements that a connection to SQLite keeps; each bulk statement exists in a few sizes.
pub(super) const STATEMENT_CACHE: usize = 256;

/// The file is not memory-mapped: with ten million records pages of apps took 1 to 14% less CPU time that way, but an I/O error
/// would end the process, and each connection has page tables of its own, which don't go away again (docs/performance.md).
fn kib(size: u64) -> String {
    format!("-{}", size.max(SMALLEST_CACHE_KIB))
}

/// Below it a read would fetch the upper pages of its indexes again.
const SMALLEST_CACHE_KIB: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_has_half_and_the_readers_share_the_rest() {
        let little = Resources::little(16);
        assert_eq!((&*little.writer_cache(), &*little.reader_cache(100)), ("-8192", "-512"));
        let more = Resources { page_cache_mib: 96, ..little };
        assert_eq!((&*more.writer_cache(), &*more.reader_cache(20)), ("-49152", "-2457"));
    }
}
