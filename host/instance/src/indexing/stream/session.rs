//! Reads one connection from the WebSocket upgrade to its end: chunks and changes of the filter.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use belvedere_web::websocket::{Connection, Lost};

use super::inflate::Inflate;
use super::servers::Servers;
use super::wanted::Wanted;
use crate::indexing::intake::{CHUNK_FRAMES, Intake};
use crate::indexing::position::Position;
use crate::indexing::settings::Timing;
use crate::lexicons::Followed;
use belvedere_base::hand_over_thread::hand_over_thread;

/// Time that a chunk received before shutdown may still take to enter the pipeline.
const LAST_CHUNK_TIMEOUT: Duration = Duration::from_secs(2);

/// The reason why a session ended.
#[derive(Debug)]
pub(super) enum End {
    Shutdown,
    /// No connection could be opened.
    Unreachable,
    /// The set of tracked collections changed.
    FilterChanged,
    Lost(Lost),
    /// The writer has ended.
    PipelineClosed,
}

/// An open connection.
pub(super) struct Session<'a, Io> {
    pub connection: Connection<Io>,
    pub intake: &'a mut Intake,
    pub position: &'a mut Position,
    pub servers: &'a mut Servers,
    pub inflate: Option<&'a mut Inflate>,
    pub tracked: &'a mut watch::Receiver<Followed>,
    pub wanted: &'a Wanted,
    pub timing: &'a Timing,
    pub shutdown: &'a CancellationToken,
}

impl<Io: AsyncRead + AsyncWrite + Unpin> Session<'_, Io> {
    /// Reads until the connection ends.
    pub(super) async fn run(mut self) -> End {
        let mut frames: Vec<Bytes> = Vec::with_capacity(CHUNK_FRAMES);
        // The time of the next subscription; set while a change of the tracked collections is debounced.
        let mut resubscribe_at: Option<Instant> = None;
        let mut registry_dropped = false;
        // Since a change of the tracked collections. This subscription does not deliver events of newly tracked ones, so
        // the next one has to start at the position of the moment when they changed.
        let mut ahead: Option<Position> = None;
        loop {
            let window_ends = self.intake.window_ends();
            let decode = |bytes: Bytes| match &mut self.inflate {
                Some(inflate) => hand_over_thread(Inflate::size(&bytes), || inflate.inflate(&bytes)),
                None => Some(bytes),
            };
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => {
                    self.connection.close().await;
                    return End::Shutdown;
                }
                changed = self.tracked.changed(), if !registry_dropped => match changed {
                    Ok(()) => {
                        resubscribe_at = Some(Instant::now() + self.timing.debounce);
                        ahead.get_or_insert_with(|| self.position.clone());
                    }
                    Err(_) => registry_dropped = true,
                },
                () = until(resubscribe_at) => {
                    resubscribe_at = None;
                    let wanted = Wanted::plan(&self.tracked.borrow());
                    if wanted.as_ref() != Some(self.wanted) {
                        self.connection.close().await;
                        return End::FilterChanged;
                    }
                    if let Some(position) = ahead.take() {
                        *self.position = position;
                    }
                }
                () = until(window_ends) => {
                    // A gap is stored with retries, while the database fails without an end.
                    let position = ahead.as_mut().unwrap_or(&mut *self.position);
                    self.shutdown.run_until_cancelled(self.intake.end_window(position)).await;
                }
                read = self.connection.read_chunk(&mut frames, decode) => {
                    if let Err(lost) = read {
                        return End::Lost(lost);
                    }
                    let last_chunk = async {
                        self.shutdown.cancelled().await;
                        tokio::time::sleep(LAST_CHUNK_TIMEOUT).await;
                    };
                    tokio::select! {
                        accepted = self.intake.accept(&mut frames, ahead.as_mut().unwrap_or(&mut *self.position)) => {
                            match accepted {
                                Ok(true) => self.servers.delivered(),
                                Ok(false) => {}
                                Err(_) => return End::PipelineClosed,
                            }
                        }
                        () = last_chunk => return End::Shutdown,
                    }
                }
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

impl End {
    /// The reason why the connection was lost, if it was.
    pub(super) fn lost(&self) -> Option<&Lost> {
        if let Self::Lost(lost) = self { Some(lost) } else { None }
    }

    /// The text for the log and the event log.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Unreachable => "no connection".to_owned(),
            Self::Shutdown => "shutting down".to_owned(),
            Self::FilterChanged => "the tracked collections changed".to_owned(),
            Self::Lost(lost) => lost.to_string(),
            Self::PipelineClosed => "the index writer has stopped".to_owned(),
        }
    }
}
