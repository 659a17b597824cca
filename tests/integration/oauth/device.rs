//! A PDS stand-in that hosts given accounts.

pub use crate::support::app::{App, Device, SCOPES};

use crate::fixtures::World;
use crate::support::oauth_pds::OauthPds;

/// Starts a PDS and makes it the PDS of the accounts.
pub async fn pds(world: &World, dids: &[&str]) -> OauthPds {
    let pds = OauthPds::start().await;
    for did in dids {
        world.plc.host(did, &pds.url());
    }
    pds
}
