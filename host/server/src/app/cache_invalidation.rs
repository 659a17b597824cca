//! Reloads what hosts keep in memory after the store has changed.
//!
//! After writing, call [`App::changed`]: it reloads locally before returning; other hosts reload on NOTIFY. A host that
//! was disconnected from the database reloads everything.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::{Instant, interval_at};

use belvedere_instance::jobs::retention::Retention;
use belvedere_instance::network_lexicons::Reload;
use belvedere_instance::settings::Settings;
use belvedere_protocol::atproto::Did;
use belvedere_protocol::trigger::TriggerKind;
use belvedere_scripting::plugins::loading;
use belvedere_storage::store::notifications::{ListenerEvent, Notifications, announce};
use belvedere_storage::store::{self, StoreError, record_changes};
use belvedere_web::http::Error;

use super::App;

/// Interval between reloads of everything, with or without a notification: a host may be killed between its write and its
/// notification, and an operator may change rows by hand.
const REFRESH_EVERY: Duration = Duration::from_mins(1);

/// A part of the store that hosts keep in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    ApiClients,
    /// One API client, by id, and its children.
    ApiClient(String),
    /// The instance's own origins.
    Domains,
    /// Admin users, their permissions, and their API keys.
    Admins,
    Lexicons,
    /// The labelers that are followed.
    Labelers,
    /// Plugins and their secrets.
    Plugins,
    Scripts,
    /// One script, by its trigger.
    Script(String),
    ScriptVariables,
    /// With the values derived from them: costs of calls, whether the event log is verbose, and how long it is kept.
    Settings,
    /// DID documents. They also expire by themselves.
    Identities(Vec<Did>),
    /// The identity of the instance itself, and its services.
    ServiceIdentity,
    /// Changes of records that subscriptions show. The database announces them.
    RecordChanges,
}

impl Topic {
    /// The topics that are reloaded as a whole.
    const EVERYTHING: [Self; 11] = [
        Self::ApiClients,
        Self::Domains,
        Self::Admins,
        Self::Lexicons,
        Self::Labelers,
        Self::Plugins,
        Self::Scripts,
        Self::ScriptVariables,
        Self::Settings,
        Self::ServiceIdentity,
        Self::RecordChanges,
    ];

    /// `None` for a topic of another version of this program.
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
            Self::Labelers => "labelers",
            Self::Plugins => loading::NOTIFICATION,
            Self::Scripts => "scripts",
            Self::Script(trigger) => return write!(f, "script {trigger}"),
            Self::ScriptVariables => "script-variables",
            Self::Settings => "settings",
            Self::ServiceIdentity => "service-identity",
            Self::RecordChanges => record_changes::NOTIFICATION,
            Self::Identities(dids) => {
                f.write_str("identities")?;
                return dids.iter().try_for_each(|did| write!(f, " {did}"));
            }
        })
    }
}

impl App {
    /// Must be called after each write to the rows of a topic: reloads them here, and makes the other hosts reload
    /// them.
    ///
    /// # Errors
    /// 500 when one of these fails. The write stays, and takes effect within [`REFRESH_EVERY`].
    pub async fn changed(&self, topic: Topic) -> Result<(), Error> {
        // Reloads even if the announcement failed.
        let announced = announce(&self.db, &topic.to_string()).await;
        self.reload(&topic).await.and(announced).map_err(Error::from)
    }

    /// Reloads a topic on this host.
    ///
    /// # Errors
    /// When the store can't be read; then the previous values stay.
    pub async fn reload(&self, topic: &Topic) -> Result<(), StoreError> {
        let db = &self.db;
        match topic {
            Topic::ApiClients => self.access.clients.reload(db).await,
            Topic::ApiClient(id) => self.access.clients.reload_one(db, id).await,
            Topic::Domains => {
                let domains = store::domains::list(db).await?;
                let primary = domains.iter().find(|row| row.is_primary).map(|row| row.url.clone());
                self.access.origins.replace(primary, domains.into_iter().map(|row| row.url));
                Ok(())
            }
            Topic::Admins => {
                self.access.admin_keys.forget();
                Ok(())
            }
            Topic::Lexicons => {
                self.registry.reload(db).await?;
                self.subscriptions.follow().await?;
                // Views are compared with their lexicons.
                self.scripting.views.reload(db).await
            }
            Topic::Labelers => {
                self.labelers.wake();
                Ok(())
            }
            Topic::Plugins => self.plugins.loader.reload().await,
            Topic::Scripts => {
                self.collect();
                self.scripting.runtime.scripts.reload(&self.scripting.runtime.engine, db).await?;
                self.reload_recordings().await?;
                self.scripting.views.reload(db).await
            }
            Topic::Script(trigger) => {
                if trigger.starts_with(TriggerKind::View.as_str()) {
                    return self.scripting.views.reload(db).await;
                }
                self.collect();
                self.reload_recordings().await?;
                self.scripting.runtime.scripts.reload_one(&self.scripting.runtime.engine, db, trigger).await
            }
            Topic::ScriptVariables => {
                self.scripting.runtime.services.variables.reload(&self.sealing, db).await
            }
            Topic::Settings => {
                let derive = |settings: &Settings| {
                    self.access.costs.reload(settings);
                    self.access.vault.effective_scopes().reload(settings);
                    self.events.set_verbose(settings.logs_verbosely());
                    let periods = Retention { event_days: settings.event_retention_days() };
                    self.retention.send_if_modified(|current| std::mem::replace(current, periods) != periods);
                };
                self.settings.reload(db, derive).await
            }
            Topic::ServiceIdentity => self.service_identity.reload(db, &self.sealing).await,
            Topic::RecordChanges => {
                self.subscriptions.wake();
                Ok(())
            }
            Topic::Identities(dids) => {
                for did in dids {
                    self.core.resolver.invalidate(did).await;
                }
                self.scripting.profiles.people.forget(dids);
                Ok(())
            }
        }
    }

    /// Reloads the topics that other hosts announce, until the server drains.
    pub(crate) async fn follow_changes(self: Arc<Self>) {
        let mut notifications = Notifications::of(&self.db);
        let mut refresh = interval_at(Instant::now() + REFRESH_EVERY, REFRESH_EVERY);
        refresh.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let heard = tokio::select! {
                () = self.lifecycle.drain.cancelled() => return,
                heard = notifications.next() => heard,
                _ = refresh.tick() => ListenerEvent::Connected,
            };
            match heard {
                ListenerEvent::Connected => self.reload_each(&Topic::EVERYTHING).await,
                ListenerEvent::Notification(text) => {
                    if let Some(topic) = Topic::parse(&text) {
                        self.reload_each(&[topic]).await;
                    } else {
                        tracing::debug!(text, "another host announced a topic that is unknown here");
                    }
                }
            }
        }
    }

    /// Takes milliseconds: keys that were revoked wait for nothing.
    async fn reload_each(&self, topics: &[Topic]) {
        for topic in topics {
            if *topic == Topic::Plugins {
                self.plugins.wake_reload();
            } else if let Err(error) = self.reload(topic).await {
                tracing::warn!(%error, %topic, "a topic could not be reloaded; it is retried within a minute");
            }
        }
    }
}

impl Reload for App {
    fn lexicons_changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(error) = self.changed(Topic::Lexicons).await {
                tracing::warn!(?error, "changed lexicons take effect within a minute");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_read_back_from_their_text() {
        let did = |text: &str| Did::try_from(text).unwrap();
        let more = [
            Topic::ApiClient("0a1b".to_owned()),
            Topic::Script("job.run:send mail".to_owned()),
            Topic::Identities(vec![did("did:plc:alice"), did("did:web:bob.example%3A80")]),
        ];
        for topic in Topic::EVERYTHING.into_iter().chain(more) {
            assert_eq!(Topic::parse(&topic.to_string()), Some(topic));
        }
        assert_eq!(Topic::parse("unknown"), None);
    }
}
