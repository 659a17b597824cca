//! A replica with its pools.

use std::fmt;
use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;

use crate::store::postgres::{Postgres, connect_options};
use crate::store::{Db, StoreError};

use super::service::Service;

pub(super) struct Replica {
    pub(super) service: Arc<Service>,
    pub(super) options: PgConnectOptions,
    /// A handle whose pools of reads and scans are the replica's.
    db: Db,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options may contain a password.
        f.debug_struct("Replica").field("service", &self.service).finish_non_exhaustive()
    }
}

impl Replica {
    pub(super) fn new(url: &str, primary: &Postgres) -> Result<Self, StoreError> {
        let options = connect_options(url)?;
        let server = format!("{}:{}", options.get_host(), options.get_port());
        let service = Arc::new(Service::new(server));
        let db = Db::Postgres(primary.on_replica(&options, &service));
        Ok(Self { service, options, db })
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    /// The statements that run there at present.
    pub(super) fn load(&self) -> usize {
        let Db::Postgres(db) = &self.db else { return 0 };
        db.read_pool.used() + db.scan_pool.used()
    }

    pub(super) async fn close(&self) {
        let Db::Postgres(db) = &self.db else { return };
        db.read_pool.close().await;
        db.scan_pool.close().await;
    }
}
