//! What every host keeps in memory of the store, and how a change of it reaches them all.
//!
//! Whoever writes one of these says so with [`App::changed`]: this host takes the change over before the call returns,
//! the others as soon as they hear of it. A host that has not been listening for a moment takes over everything.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, interval_at};

use crate::atproto::Did;
use crate::http::Error;
use crate::settings::{self, Settings};
use crate::store::notices::{ListenerEvent, Notices, announce};
use crate::store::{self, StoreError};

use super::App;

/// Everything is taken over this often, heard of or not: a host may be killed between its write and its notice, and
/// somebody may write with a tool of the database.
const REFRESH_EVERY: Duration = Duration::from_mins(1);

/// Something that hosts keep in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    ApiClients,
    /// One API client, by id, and its children.
    ApiClient(String),
    /// Domains of the instance: its own origins.
    Domains,
    /// Admin users, what they may do, and their API keys.
    Admins,
    Lexicons,
    Scripts,
    /// One script, by its trigger.
    Script(String),
    ScriptVariables,
    /// With all that is made of them: costs of calls, and whether the event log is verbose.
    Settings,
    /// Documents of these DIDs. They also expire by themselves.
    Identities(Vec<Did>),
}

impl Topic {
    /// All that is taken over as a whole.
    const EVERYTHING: [Self; 7] = [
        Self::ApiClients,
        Self::Domains,
        Self::Admins,
        Self::Lexicons,
        Self::Scripts,
        Self::ScriptVariables,
        Self::Settings,
    ];

    /// `None` for what another version of this program says.
    fn parse(text: &str) -> Option<Self> {
        if let Some(id) = text.strip_prefix("api-client ") {
            return Some(Self::ApiClient(id.to_owned()));
        }
        if let Some(trigger) = text.strip_prefix("script ") {
            return Some(Self::Script(trigger.to_owned()));
        }
        if let Some(dids) = text.strip_prefix("identities ") {
            return Some(Self::Identities(
                dids.split(' ').filter_map(|did| Did::try_from(did).ok()).collect(),
            ));
        }
        Self::EVERYTHING.into_iter().find(|topic| topic.to_string() == text)
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiClients => "api-clients",
            Self::ApiClient(id) => return write!(f, "api-client {id}"),
            Self::Domains => "domains",
            Self::Admins => "admins",
            Self::Lexicons => "lexicons",
            Self::Scripts => "scripts",
            Self::Script(trigger) => return write!(f, "script {trigger}"),
            Self::ScriptVariables => "script-variables",
            Self::Settings => "settings",
            Self::Identities(dids) => {
                f.write_str("identities")?;
                return dids.iter().try_for_each(|did| write!(f, " {did}"));
            }
        })
    }
}

impl App {
    /// To be called after each write to what the topic names: counts here when it returns, and elsewhere soon.
    ///
    /// # Errors
    /// 500 when it does not; what was written stays, and counts within [`REFRESH_EVERY`] all the same.
    pub async fn changed(&self, topic: Topic) -> Result<(), Error> {
        // Both are tried, whatever becomes of the other.
        let announced = announce(&self.db, &topic.to_string()).await;
        self.reload(&topic).await.and(announced).map_err(Error::from)
    }

    /// Takes over what the store has now, here only.
    ///
    /// # Errors
    /// When the store can't be read; then what was known stays.
    pub async fn reload(&self, topic: &Topic) -> Result<(), StoreError> {
        let db = &self.db;
        match topic {
            Topic::ApiClients => self.access.clients.reload(db).await,
            Topic::ApiClient(id) => self.access.clients.reload_one(db, id).await,
            Topic::Domains => {
                let domains = store::domains::list(db).await?;
                self.access.origins.replace(domains.into_iter().map(|row| row.url));
                Ok(())
            }
            Topic::Admins => {
                self.access.admin_keys.forget();
                Ok(())
            }
            Topic::Lexicons => self.registry.reload(db).await,
            Topic::Scripts => self.scripting.library.reload(&self.scripting.engine, db).await,
            Topic::Script(trigger) => {
                self.scripting.library.reload_one(&self.scripting.engine, db, trigger).await
            }
            Topic::ScriptVariables => self.scripting.services.variables.reload(&self.sealing, db).await,
            Topic::Settings => {
                let derive = |settings: &Settings| {
                    self.access.costs.reload(settings);
                    self.events.set_verbose(settings.flag(settings::VERBOSE_EVENT_LOGGING));
                };
                self.settings.reload(db, derive).await
            }
            Topic::Identities(dids) => {
                for did in dids {
                    self.outbound.resolver.invalidate(did).await;
                }
                Ok(())
            }
        }
    }

    /// Follows what other hosts change, until the server drains.
    pub(crate) async fn follow_changes(self: Arc<Self>) {
        let mut notices = Notices::of(&self.db);
        let mut refresh = interval_at(Instant::now() + REFRESH_EVERY, REFRESH_EVERY);
        refresh.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let heard = tokio::select! {
                () = self.lifecycle.drain.cancelled() => return,
                heard = notices.next() => heard,
                _ = refresh.tick() => ListenerEvent::Began,
            };
            match heard {
                ListenerEvent::Began => self.reload_each(&Topic::EVERYTHING).await,
                ListenerEvent::Notice(text) => {
                    if let Some(topic) = Topic::parse(&text) {
                        self.reload_each(&[topic]).await;
                    } else {
                        tracing::debug!(text, "another host speaks of something unknown here");
                    }
                }
            }
        }
    }

    async fn reload_each(&self, topics: &[Topic]) {
        for topic in topics {
            if let Err(error) = self.reload(topic).await {
                tracing::warn!(%error, %topic, "a change could not be taken over; it is tried again within a minute");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_survive_the_way() {
        let did = |text: &str| Did::try_from(text).unwrap();
        let more = [
            Topic::ApiClient("0a1b".to_owned()),
            Topic::Script("job.run:send mail".to_owned()),
            Topic::Identities(vec![did("did:plc:alice"), did("did:web:bob.example%3A80")]),
        ];
        for topic in Topic::EVERYTHING.into_iter().chain(more) {
            assert_eq!(Topic::parse(&topic.to_string()), Some(topic));
        }
        assert_eq!(Topic::parse("tomorrow's topic"), None);
    }
}
