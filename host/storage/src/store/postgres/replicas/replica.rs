//! A replica with its pools.

use std::fmt;
use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;

use crate::store::postgres::{Postgres, connect_options};
use crate::store::{Db, StoreError};

use crate::store::read_pool::{ServerKind, Service};

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
        let service = Arc::new(Service::new(ServerKind::Replica, server));
        let db = Db::Postgres(primary.on_replica(&options, &service));
        Ok(Self { service, options, db })
    }

    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    /// The statements that run there at present.
    pub(super) fn load(&self) -> usize {
        let Db::Postgres(db) = &self.db else { return 0 };
        db.read_pools.used()
    }

    pub(super) async fn close(&self) {
        let Db::Postgres(db) = &self.db else { return };
        db.read_pools.close().await;
    }
}

#[cfg(test)]
mod tests {
    use belvedere_standins::postgres;
    use sqlx::{Connection as _, PgConnection};

    use super::*;
    use crate::store::read_pool::position::Position;
    use crate::store::read_pool::{Progress, Unused};
    use belvedere_web::fair_share::Tenant;

    /// A replica that is the primary itself.
    async fn replica(connections: u32) -> (String, Db, Replica) {
        let url = postgres::create_database().await;
        let db = Db::open(&url, connections).await.unwrap();
        let Db::Postgres(primary) = &db else { panic!("{url} is PostgreSQL") };
        let replica = Replica::new(&url, primary).unwrap();
        (url, db, replica)
    }

    impl Replica {
        fn set_used(&self, result: Result<(), Unused>) {
            self.service.set(result.map(|()| Position(0)), Progress::default());
        }

        async fn read(&self, sql: &'static str) -> Result<(), sqlx::Error> {
            let Db::Postgres(db) = &self.db else { return Ok(()) };
            sqlx::query(sql).execute(db.read_pools.hot.reads()).await.map(drop)
        }
    }

    #[tokio::test]
    async fn a_tenant_has_its_share_of_each_server() {
        let (url, db, replica) = replica(32).await;
        let bounds = |db: &Db| (db.reads().bounds(), db.scans().bounds());
        assert_eq!(format!("{:?}", bounds(&db)), format!("{:?}", bounds(replica.db())));
        let tenant = Tenant::client("one");
        let mut taken = Vec::new();
        for _ in 0..db.reads().bounds().per_tenant {
            taken.push(replica.db().read_permit(&tenant).await.unwrap());
        }
        assert!(replica.db().reads().is_full_for(&tenant) && !db.reads().is_full_for(&tenant));
        assert!(!replica.db().reads().is_full_for(&Tenant::client("other")));
        db.close().await;
        postgres::drop_database(&url);
    }

    #[tokio::test]
    async fn reads_that_wait_for_a_replica_run_on_the_primary_when_it_leaves() {
        let (url, db, replica) = replica(8).await;
        replica.read("SELECT 1").await.unwrap();
        assert_eq!(replica.service.status().reads, 0, "it is not used yet");
        replica.set_used(Ok(()));
        let mut holder = PgConnection::connect(&url).await.unwrap();
        sqlx::query("SELECT pg_advisory_lock(7)").execute(&mut holder).await.unwrap();
        let read = replica.read("SELECT pg_advisory_lock_shared(7)");
        let leave = async {
            // It has a connection to the replica.
            while replica.service.status().reads == 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(replica.load(), 1);
            replica.set_used(Err(Unused::Silent));
            while replica.service.status().repeated == 0 {
                tokio::task::yield_now().await;
            }
            holder.close().await.unwrap();
        };
        let (read, ()) = tokio::join!(read, leave);
        read.unwrap();
        assert_eq!((replica.load(), replica.service.status().repeated), (0, 1));
        db.close().await;
        postgres::drop_database(&url);
    }

    #[tokio::test]
    async fn a_read_that_fails_anywhere_is_not_repeated() {
        let (url, db, replica) = replica(8).await;
        replica.set_used(Ok(()));
        replica.read("SELECT 1 / 0").await.unwrap_err();
        assert_eq!(replica.service.status().repeated, 0);
        // The table may be missing on the replica only.
        replica.read("SELECT 1 FROM missing").await.unwrap_err();
        let status = replica.service.status();
        assert_eq!((status.repeated, status.unused), (1, None));
        db.close().await;
        postgres::drop_database(&url);
    }

    /// A node of a cluster that the coordinator does not reach either.
    #[tokio::test]
    async fn a_read_of_a_lost_server_does_not_wait_at_the_primary() {
        let (url, db, replica) = replica(8).await;
        replica.set_used(Err(Unused::Silent));
        replica.read("SELECT 1").await.unwrap();
        replica.service.set_lost(true);
        let error = StoreError::from(replica.read("SELECT 1").await.unwrap_err());
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        assert_eq!(belvedere_web::http::Error::from(error).status, 503);
        replica.service.set_lost(false);
        replica.read("SELECT 1").await.unwrap();
        db.close().await;
        postgres::drop_database(&url);
    }

    #[tokio::test]
    async fn a_connection_to_a_replica_that_went_back_is_not_used() {
        let (url, db, replica) = replica(8).await;
        replica.service.set(Ok(Position(1)), Progress::default());
        replica.read("SELECT 1").await.unwrap();
        assert!(matches!(replica.service.status().unused, Some(Unused::ReadFailed(_))));
        db.close().await;
        postgres::drop_database(&url);
    }
}
