//! The dashboard: files that are part of the program, and the redirects that lead to it. The pages themselves are in
//! `dashboard/`.

mod encoding;
mod files;
mod redirects;

pub use files::{asset, file, index};
pub use redirects::{login, to_dashboard};
