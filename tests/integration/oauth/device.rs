//! An application, and a PDS where its users live.

pub use crate::support::app::{App, Device, SCOPES};

use crate::fixtures::World;
use crate::support::oauth_pds::OauthPds;

/// The world with a PDS where somebody lives.
pub async fn pds(world: &World, dids: &[&str]) -> OauthPds {
    let pds = OauthPds::start().await;
    for did in dids {
        world.plc.host(did, &pds.url());
    }
    pds
}
