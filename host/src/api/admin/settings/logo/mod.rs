//! `/admin/settings/logo`: a picture for consent screens and the dashboard, served at `/settings/logo`.

pub mod delete;
pub mod put;
