//! The options that the commands have in common which push a folder to a server.

use clap::Args;

/// The effects of a push.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct PushOptions {
    /// Delete what the server has and the folder lacks; lexicons that follow the network stay
    #[arg(long)]
    pub(super) delete: bool,
    /// Print what would change, without changing it
    #[arg(long)]
    pub(super) dry_run: bool,
}
