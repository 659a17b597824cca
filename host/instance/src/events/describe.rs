//! Maps events to rows of the event log: type, severity, actor, subject and detail of each kind (`admin-api.md` §16).

use std::time::Duration;

use serde_json::{Value, json};

use super::{Event, network_lexicons};
use belvedere_protocol::atproto::RecordUri;
use belvedere_storage::store::events::Severity;

/// Bytes of a script's source or of a message that one event keeps: enough to find the error, without a flood of
/// failing calls filling the disk.
const MAX_TEXT_BYTES: usize = 4096;

/// The columns of an event's row that depend on its kind.
#[derive(Clone, Debug)]
pub struct EventFields {
    pub event_type: &'static str,
    pub severity: Severity,
    pub actor_did: Option<String>,
    pub subject: Option<String>,
    pub detail: Value,
}

impl Event {
    /// The columns of this event's row, as in the table of the specification.
    #[expect(clippy::too_many_lines, reason = "a table with one arm for each kind")]
    pub fn describe(self) -> EventFields {
        use Severity::{Error, Info, Warn};
        let row = |event_type, severity, actor_did: Option<String>, subject: Option<String>, detail| {
            EventFields { event_type, severity, actor_did, subject, detail }
        };
        match self {
            Self::LexiconCreated { actor, nsid, revision } => {
                let detail = json!({ "revision": revision, "source": "manual" });
                row("lexicon.created", Info, Some(actor), Some(nsid), detail)
            }
            Self::LexiconUpdated { actor, nsid, revision } => {
                let detail = json!({ "revision": revision, "source": "manual" });
                row("lexicon.updated", Info, Some(actor), Some(nsid), detail)
            }
            Self::LexiconDeleted { actor, nsid } => {
                row("lexicon.deleted", Info, Some(actor), Some(nsid), json!({}))
            }
            Self::LexiconInvalidatesRecords { nsid, checked, invalidated, reason } => {
                let detail =
                    json!({ "checked": checked, "invalidated": invalidated, "reason": truncate(reason) });
                row("lexicon.invalidates_records", Warn, None, Some(nsid), detail)
            }
            Self::NetworkLexicon(event) => {
                let (event_type, severity, detail) = network_lexicons::describe(event.what);
                row(event_type, severity, event.actor, Some(event.nsid.to_string()), detail)
            }
            Self::ScriptCreated { actor, trigger, script_type } => {
                let detail = json!({ "script_type": script_type });
                row("script.created", Info, Some(actor), Some(trigger), detail)
            }
            Self::ScriptUpdated { actor, trigger, script_type } => {
                let detail = json!({ "script_type": script_type });
                row("script.updated", Info, Some(actor), Some(trigger), detail)
            }
            Self::ScriptDeleted { actor, trigger } => {
                row("script.deleted", Info, Some(actor), Some(trigger), json!({}))
            }
            Self::ScriptDryRun { actor, trigger, is_stored, network, ok } => {
                let detail = json!({ "stored": is_stored, "network": network, "ok": ok });
                row("script.dry_run", Info, Some(actor), Some(trigger), detail)
            }
            Self::SettingUpdated { actor, key, detail } => {
                row("setting.updated", Info, Some(actor), Some(key), detail)
            }
            Self::SettingDeleted { actor, key } => {
                row("setting.deleted", Info, Some(actor), Some(key), json!({}))
            }
            Self::ScriptVariableUpserted { actor, key } => {
                row("script_variable.upserted", Info, Some(actor), Some(key), json!({}))
            }
            Self::ScriptVariableDeleted { actor, key } => {
                row("script_variable.deleted", Info, Some(actor), Some(key), json!({}))
            }
            Self::ScriptLog { caller, trigger, message } => {
                let detail = json!({ "trigger": trigger, "message": truncate(message) });
                row("script.log", Info, caller, Some(trigger), detail)
            }
            Self::ScriptError(e) => {
                let detail = json!({
                    "error": truncate(e.error),
                    "script_source": truncate(e.script_source),
                    "input": truncate_json(e.input),
                    "caller_did": e.caller,
                    "method": e.method.as_str(),
                    "duration_ms": millis(e.duration),
                });
                row("script.error", Error, e.caller, Some(e.method.as_str().to_owned()), detail)
            }
            Self::ScriptExecuted { caller, method, duration, response_size } => {
                let detail = json!({
                    "method": method,
                    "caller_did": caller,
                    "duration_ms": millis(duration),
                    "response_size": response_size,
                });
                row("script.executed", Info, caller, Some(method), detail)
            }
            Self::EventScriptExecuted { subject, host_kind, host_id, trigger, attempts } => {
                let detail = json!({
                    "host_kind": host_kind,
                    "host_id": host_id,
                    "trigger": trigger,
                    "attempts": attempts,
                });
                row("script.executed", Info, None, Some(subject), detail)
            }
            Self::ScriptDeadLettered { subject, host_kind, host_id, trigger, error } => {
                let detail = json!({
                    "host_kind": host_kind,
                    "host_id": host_id,
                    "trigger": trigger,
                    "error": truncate(error),
                });
                row("script.dead_lettered", Error, None, Some(subject), detail)
            }
            Self::DeadLetterDismissed { actor, id, subject } => {
                row("dead_letter.dismissed", Info, Some(actor), Some(subject), json!({ "id": id }))
            }
            Self::DeadLetterRetried { actor, id, subject, error } => {
                let severity = if error.is_some() { Error } else { Info };
                let detail = json!({ "id": id, "error": error.map(truncate) });
                row("dead_letter.retried", severity, Some(actor), Some(subject), detail)
            }
            Self::DeadLetterReindexed { actor, id, subject, error } => {
                let severity = if error.is_some() { Error } else { Info };
                let detail = json!({ "id": id, "error": error.map(truncate) });
                row("dead_letter.reindexed", severity, Some(actor), Some(subject), detail)
            }
            Self::JobStarted { actor, job_type, job_id } => {
                let detail = json!({ "job_id": job_id, "job_type": job_type });
                row("job.started", Info, Some(actor), Some(job_type), detail)
            }
            Self::JobCompleted { actor, job_type, job_id, result } => {
                let detail = json!({ "job_id": job_id, "result": truncate_json(result) });
                row("job.completed", Info, Some(actor), Some(job_type), detail)
            }
            Self::JobPaused { actor, job_type, job_id } => {
                row("job.paused", Info, Some(actor), Some(job_type), json!({ "job_id": job_id }))
            }
            Self::JobCancelled { actor, job_type, job_id } => {
                row("job.cancelled", Info, Some(actor), Some(job_type), json!({ "job_id": job_id }))
            }
            Self::JobFailed { actor, job_type, job_id, error } => {
                let detail = json!({ "job_id": job_id, "error": truncate(error) });
                row("job.failed", Error, Some(actor), Some(job_type), detail)
            }
            Self::EventLogPurged { actor, job_id, query } => {
                row("event_logs.purged", Warn, Some(actor), Some(job_id), query)
            }
            Self::InstanceKeyRotated { actor, kid } => {
                row("instance_key.rotated", Warn, Some(actor), Some(kid), json!({}))
            }
            Self::InstanceKeyDeleted { actor, kid, sessions_destroyed } => {
                let detail = json!({ "sessions_destroyed": sessions_destroyed });
                row("instance_key.deleted", Warn, Some(actor), Some(kid), detail)
            }
            Self::BackfillStarted { actor, collection, job_id, did } => {
                let (scope, account_count) =
                    if did.is_some() { ("accounts", Some(1)) } else { ("network", None) };
                let detail = json!({ "job_id": job_id, "scope": scope, "account_count": account_count });
                row("backfill.started", Info, actor, collection, detail)
            }
            Self::BackfillRetryStarted { actor, collection, job_id, source_job_id, retried_repos } => {
                let detail = json!({ "job_id": job_id, "source_job_id": source_job_id, "retried_repos": retried_repos });
                row("backfill.retry_started", Info, actor, collection, detail)
            }
            Self::BackfillPausing { actor, job_id } => {
                row("backfill.pausing", Info, Some(actor), None, json!({ "job_id": job_id }))
            }
            Self::BackfillResumed { actor, job_id } => {
                row("backfill.resumed", Info, Some(actor), None, json!({ "job_id": job_id }))
            }
            Self::BackfillCancelling { actor, job_id } => {
                row("backfill.cancelling", Info, Some(actor), None, json!({ "job_id": job_id }))
            }
            Self::BackfillCancelled { actor, job_id } => {
                row("backfill.cancelled", Info, actor, None, json!({ "job_id": job_id }))
            }
            Self::BackfillCompleted { collection, job_id, total_repos, failed_repos, total_records } => {
                let detail = json!({ "job_id": job_id, "total_repos": total_repos, "failed_repos": failed_repos,
                    "total_records": total_records });
                let severity = if failed_repos > 0 { Warn } else { Info };
                row("backfill.completed", severity, None, collection, detail)
            }
            Self::BackfillFailed { collection, job_id, error } => {
                let detail = json!({ "job_id": job_id, "error": truncate(error) });
                row("backfill.failed", Error, None, collection, detail)
            }
            Self::UserBootstrapped { did } => row("user.bootstrapped", Info, None, Some(did), json!({})),
            Self::UserCreated { actor, did, template, permissions } => {
                let detail = json!({ "template": template, "permissions": permissions });
                row("user.created", Info, actor, Some(did), detail)
            }
            Self::UserPermissionsUpdated { actor, id, granted, revoked } => {
                let detail = json!({ "granted": granted, "revoked": revoked });
                row("user.permissions_updated", Info, Some(actor), Some(id), detail)
            }
            Self::UserDeleted { actor, id } => row("user.deleted", Info, Some(actor), Some(id), json!({})),
            Self::UserSuperTransferred { actor, from, to } => {
                let detail = json!({ "from_user_id": from, "to_user_id": to });
                row("user.super_transferred", Warn, Some(actor), Some(to), detail)
            }
            Self::PermissionDenied { caller, user_id, permission } => {
                let detail = json!({ "user_id": user_id, "required_permission": permission });
                row("auth.permission_denied", Warn, Some(caller), Some(permission), detail)
            }
            Self::ApiKeyCreated { actor, name, key_prefix, permissions } => {
                let detail = json!({ "key_prefix": key_prefix, "permissions": permissions });
                row("api_key.created", Info, Some(actor), Some(name), detail)
            }
            Self::ApiKeyRevoked { actor, id } => {
                row("api_key.revoked", Info, Some(actor), Some(id), json!({}))
            }
            Self::ApiClientCreated { actor, name, client_key, client_id_url, parent_client_id } => {
                let mut detail = json!({ "client_key": client_key, "client_id_url": client_id_url });
                if let Some(parent) = parent_client_id {
                    detail["parent_client_id"] = parent.into();
                    detail["self_service"] = true.into();
                }
                row("api_client.created", Info, Some(actor), Some(name), detail)
            }
            Self::ApiClientUpdated { actor, id } => {
                row("api_client.updated", Info, Some(actor), Some(id), json!({}))
            }
            Self::ApiClientDeleted { actor, id } => {
                row("api_client.deleted", Info, Some(actor), Some(id), json!({}))
            }
            Self::LinkedRepoCreated { actor, id, did, scopes } => {
                let detail = json!({ "did": did, "scopes": scopes });
                row("linked_repo.created", Info, Some(actor), Some(id), detail)
            }
            Self::LinkedRepoAuthorized { did, id } => {
                row("linked_repo.authorized", Info, Some(did), Some(id), json!({}))
            }
            Self::LinkedRepoDeleted { actor, id } => {
                row("linked_repo.deleted", Info, Some(actor), Some(id), json!({}))
            }
            Self::AccountLinked { actor, account } => {
                row("delegation.account_linked", Info, Some(actor), Some(account), json!({}))
            }
            Self::AccountUnlinked { actor, account } => {
                row("delegation.account_unlinked", Info, Some(actor), Some(account), json!({}))
            }
            Self::DelegateAdded { actor, user, account, role } => {
                let detail = json!({ "account_did": account, "role": role });
                row("delegation.delegate_added", Info, Some(actor), Some(user), detail)
            }
            Self::DelegateRemoved { actor, user, account } => {
                let detail = json!({ "account_did": account });
                row("delegation.delegate_removed", Info, Some(actor), Some(user), detail)
            }
            Self::DomainCreated { actor, url, id } => {
                row("domain.created", Info, Some(actor), Some(url), json!({ "id": id }))
            }
            Self::DomainDeleted { actor, url, id } => {
                row("domain.deleted", Info, Some(actor), Some(url), json!({ "id": id }))
            }
            Self::DomainPrimaryChanged { actor, url, id } => {
                row("domain.primary_changed", Info, Some(actor), Some(url), json!({ "id": id }))
            }
            Self::DpopKeyProvisioned { provision_id, client_key, thumbprint } => {
                let detail = json!({ "client_key": client_key, "thumbprint": thumbprint });
                row("dpop_key.provisioned", Info, None, Some(provision_id), detail)
            }
            Self::DpopSessionCreated { did, client_key, scopes, refreshable } => {
                // Without a refresh token the session ends within minutes.
                let severity = if refreshable { Info } else { Warn };
                let detail = json!({ "scopes": scopes, "refreshable": refreshable });
                row("dpop_session.created", severity, Some(did), Some(client_key), detail)
            }
            Self::DpopSessionDeleted { did, client_key } => {
                row("dpop_session.deleted", Info, Some(did), Some(client_key), json!({}))
            }
            Self::DpopDeviceDeleted { did, client_key, session_id } => {
                let detail = json!({ "session_id": session_id });
                row("dpop_session.device_deleted", Info, Some(did), Some(client_key), detail)
            }
            Self::ServiceAuthDenied { caller, method, fragment, reason } => {
                let detail = json!({ "fragment": fragment, "reason": reason });
                row("service_auth.access_denied", Error, Some(caller), Some(method), detail)
            }
            Self::ServiceIdentity(event) => event.describe(),
            Self::RecordCreated { uri } => record("record.created", Info, None, &uri, json!({})),
            Self::RecordDeleted { actor, uri } => record("record.deleted", Info, actor, &uri, json!({})),
            Self::CollectionDeleted { actor, collection, deleted } => {
                let detail = json!({ "deleted": deleted });
                row("record.collection_deleted", Info, Some(actor), Some(collection), detail)
            }
            Self::RecordSkipped { uri, reason } => {
                record("record.skipped", Info, None, &uri, json!({ "reason": reason }))
            }
            Self::RecordCidMismatch { uri, claimed_cid, reason } => {
                let extra = json!({ "claimed_cid": claimed_cid, "reason": reason });
                record("record.cid_mismatch", Warn, None, &uri, extra)
            }
            Self::RecordRejected { uri, reason } => {
                record("record.rejected", Warn, None, &uri, json!({ "reason": reason }))
            }
            Self::AccountStatusChanged { did, status } => {
                let subject = Some(did.as_str().to_owned());
                row("account.status_changed", Info, None, subject, json!({ "status": status }))
            }
            Self::JetstreamConnected { url } => {
                row("jetstream.connected", Info, None, None, json!({ "url": url }))
            }
            Self::JetstreamDisconnected { reason } => {
                row("jetstream.disconnected", Warn, None, None, json!({ "reason": reason }))
            }
            Self::StreamGap(event) => event.describe(),
            Self::Labeler(event) => event.describe(),
            Self::ExternalAccount(event) => event.describe(),
            Self::Plugin(event) => event.describe(),
            Self::PluginCall(event) => event.describe(),
        }
    }
}

fn record(
    event_type: &'static str,
    severity: Severity,
    actor_did: Option<String>,
    uri: &RecordUri,
    extra: Value,
) -> EventFields {
    let mut detail = json!({
        "collection": uri.collection.as_str(),
        "did": uri.did.as_str(),
        "rkey": uri.rkey.as_str(),
    });
    if let (Value::Object(detail), Value::Object(extra)) = (&mut detail, extra) {
        detail.extend(extra);
    }
    EventFields { event_type, severity, actor_did, subject: Some(uri.to_string()), detail }
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// Cuts a text at [`MAX_TEXT_BYTES`], at a character boundary.
pub(super) fn truncate(mut text: String) -> String {
    if text.len() > MAX_TEXT_BYTES {
        let end = (0..=MAX_TEXT_BYTES).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Returns a value that fits unchanged; replaces a larger one with the beginning of its JSON text.
fn truncate_json(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= MAX_TEXT_BYTES { value } else { Value::String(truncate(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_events_name_the_record_in_subject_and_detail() {
        let uri = RecordUri::parse("at://did:plc:abc/com.example.note/self").unwrap();
        let row =
            Event::RecordCidMismatch { uri, claimed_cid: "bafy".into(), reason: "differs".into() }.describe();
        assert_eq!(row.event_type, "record.cid_mismatch");
        assert_eq!(row.severity.as_str(), "warn");
        assert_eq!(row.subject.as_deref(), Some("at://did:plc:abc/com.example.note/self"));
        assert_eq!(row.detail["rkey"], "self");
        assert_eq!(row.detail["claimed_cid"], "bafy");
    }

    #[test]
    fn long_texts_are_cut_at_a_character_boundary() {
        let cut = truncate("ä".repeat(MAX_TEXT_BYTES));
        assert!(cut.len() <= MAX_TEXT_BYTES + '…'.len_utf8());
        assert!(cut.ends_with("ä…"));
        assert_eq!(truncate("short".into()), "short");
    }

    #[test]
    fn a_large_input_becomes_the_beginning_of_its_text() {
        let small = json!({ "a": 1 });
        assert_eq!(truncate_json(small.clone()), small);
        let large = json!({ "a": "x".repeat(MAX_TEXT_BYTES) });
        assert!(truncate_json(large).as_str().unwrap().starts_with(r#"{"a":"xxx"#));
    }
}
