//! Links by which the owner of a repo agrees. The token is in the link alone; what is stored can't be turned back.

pub mod create;
pub mod delete;
pub mod list;
