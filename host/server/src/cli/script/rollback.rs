//! `belvedere script rollback`: stores a body again that a script has had.

use std::process::ExitCode;

use anyhow::Context as _;

use super::super::print_line;
use super::super::remote::Server;
use super::remote::{Revision, Scripts};
use belvedere_instance::config::Config;
use belvedere_protocol::trigger::Trigger;

/// Without `to` it is the body before the last one, or the last one of a script that was deleted.
pub(super) async fn run(
    trigger: &str,
    to: Option<u32>,
    server: &Server,
    config: &Config,
) -> anyhow::Result<ExitCode> {
    let trigger = Trigger::parse(trigger)?;
    let scripts = Scripts::of(server, config)?;
    let revisions = scripts.revisions(trigger.id()).await?;
    let newest = revisions.first().context("the server has no revision of it")?;
    let wanted = match to {
        Some(number) => number,
        None => before(&revisions).with_context(|| format!("{trigger} has had one body only"))?,
    };
    scripts.restore(trigger.id(), wanted, newest).await?;
    print_line(&format_args!("{trigger}: stored revision {wanted} again"));
    Ok(ExitCode::SUCCESS)
}

/// The newest body before the present state. `revisions` are newest first.
fn before(revisions: &[Revision]) -> Option<u32> {
    revisions.iter().skip(1).find(|revision| revision.is_saved()).map(|revision| revision.revision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_before_the_present_state_is_stored_again() {
        let revisions = |kinds: &[&str]| -> Vec<Revision> {
            let newest_first = kinds.iter().enumerate().rev();
            newest_first
                .map(|(n, kind)| Revision { revision: n as u32 + 1, kind: (*kind).to_owned() })
                .collect()
        };
        assert_eq!(before(&revisions(&["saved", "saved", "saved"])), Some(2));
        assert_eq!(before(&revisions(&["saved", "saved", "deleted"])), Some(2));
        assert_eq!(before(&revisions(&["saved", "deleted", "saved"])), Some(1));
        assert_eq!(before(&revisions(&["saved"])), None);
        assert_eq!(before(&[]), None);
    }
}
