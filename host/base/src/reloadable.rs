//! A value in memory that is read often and replaced as a whole from the store.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Mutex;

/// Reads never wait. Reloads run one after the other, so that an older read of the store never replaces a newer one.
#[derive(Debug, Default)]
pub struct Reloadable<T> {
    current: ArcSwap<T>,
    reload: Mutex<()>,
}

impl<T> Reloadable<T> {
    pub fn new(value: T) -> Self {
        Self::of(Arc::new(value))
    }

    /// Like [`Self::new`], for a value that others have too.
    pub fn of(value: Arc<T>) -> Self {
        Self { current: ArcSwap::new(value), reload: Mutex::default() }
    }

    /// The current value, for the duration of a few statements.
    pub fn load(&self) -> Guard<Arc<T>> {
        self.current.load()
    }

    /// The current value, for as long as the caller keeps it.
    pub fn load_full(&self) -> Arc<T> {
        self.current.load_full()
    }

    /// Replaces the value without a reload.
    pub fn store(&self, value: T) {
        self.current.store(Arc::new(value));
    }

    /// Replaces the value by the result of `read`, which gets the current value.
    ///
    /// # Errors
    /// Those of `read`; then the value stays.
    pub async fn reload<E>(&self, read: impl AsyncFnOnce(&T) -> Result<T, E>) -> Result<(), E> {
        self.reload_then(read, || ()).await
    }

    /// Like [`Self::reload`], and calls `derive` after the value was replaced and before the next reload begins.
    ///
    /// # Errors
    /// Those of `read`; then the value stays and `derive` is not called.
    pub async fn reload_then<E>(
        &self,
        read: impl AsyncFnOnce(&T) -> Result<T, E>,
        derive: impl FnOnce(),
    ) -> Result<(), E> {
        self.reload_if_changed(async |current| read(current).await.map(Some), derive).await
    }

    /// Like [`Self::reload_then`]; if `read` returns `None`, the value stays and `derive` is not called.
    ///
    /// # Errors
    /// Those of `read`; then the value stays and `derive` is not called.
    pub async fn reload_if_changed<E>(
        &self,
        read: impl AsyncFnOnce(&T) -> Result<Option<T>, E>,
        derive: impl FnOnce(),
    ) -> Result<(), E> {
        let _one_at_a_time = self.reload.lock().await;
        let current = self.load_full();
        if let Some(new) = read(&current).await? {
            self.store(new);
            derive();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn an_older_read_never_replaces_a_newer_one() {
        let value = Reloadable::new(0);
        let (release, released) = oneshot::channel();
        let slow = value.reload(async |_| {
            released.await.map_err(drop)?;
            Ok::<_, ()>(1)
        });
        let quick = async {
            tokio::task::yield_now().await;
            assert_eq!(**value.load(), 0, "reads don't wait");
            release.send(()).unwrap();
            value.reload(async |current| Ok::<_, ()>(current + 10)).await.unwrap();
        };
        let (slow, ()) = tokio::join!(slow, quick);
        slow.unwrap();
        assert_eq!(**value.load(), 11);
        assert_eq!(value.reload(async |_| Err("unreadable")).await, Err("unreadable"));
        assert_eq!(**value.load(), 11);
    }
}
