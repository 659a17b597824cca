//! Every kind of event. The file is long because the table is one enum, and the list of docs/events.md.

use std::time::Duration;

use serde_json::Value;

use super::event::{Detail, EventFields, NONE, error_if, events, millis, truncate, truncate_json, warn_if};
use belvedere_base::clock::Timestamp;
use belvedere_protocol::atproto::{Did, Nsid, RecordUri};
use belvedere_storage::store::events::Severity::{self, Error, Info, Warn};

// Each kind: its meaning; name, severity, variant with its fields; actor (a DID), subject, detail.
events! {
    /// An admin has uploaded a lexicon.
    "lexicon.created" Info LexiconCreated { actor, nsid, revision: i64 } actor, nsid, { revision, "source": "manual" };
    /// An admin has replaced a lexicon.
    "lexicon.updated" Info LexiconUpdated { actor, nsid, revision: i64 } actor, nsid, { revision, "source": "manual" };
    /// An admin has removed a lexicon.
    "lexicon.deleted" Info LexiconDeleted { actor, nsid } actor, nsid, {};
    /// A changed lexicon, or one that it refers to, made records of the collection invalid.
    "lexicon.invalidates_records" Warn LexiconInvalidatesRecords { nsid, checked: usize, invalidated: usize, reason }
        NONE, nsid, { checked, invalidated, "reason": truncate(reason) };

    /// A lexicon follows the network.
    "network_lexicon.added" Info
        NetworkLexiconAdded { actor: Option<String>, nsid: Nsid, authority: Did, revision: i64 }
        actor, nsid.to_string(), { "authority_did": authority.as_str(), revision };
    /// The publisher has changed a lexicon.
    "network_lexicon.updated" Info
        NetworkLexiconUpdated { actor: Option<String>, nsid: Nsid, authority: Did, revision: i64 }
        actor, nsid.to_string(), { "authority_did": authority.as_str(), revision };
    /// A lexicon was removed by an admin, or because its publisher deleted it.
    "network_lexicon.removed" Info NetworkLexiconRemoved { actor: Option<String>, nsid: Nsid } actor, nsid.to_string(), {};
    /// DNS names another publisher of a lexicon, whose document was taken.
    "network_lexicon.authority_changed" Warn
        NetworkLexiconAuthorityChanged { actor: Option<String>, nsid: Nsid, from: Option<String>, to: Did }
        actor, nsid.to_string(), { from, "to": to.as_str() };
    /// A lexicon could not be fetched; the last document stays.
    "network_lexicon.refresh_failed" Warn NetworkLexiconRefreshFailed { actor: Option<String>, nsid: Nsid, reason }
        actor, nsid.to_string(), { reason };
    /// The published document breaks the one here, which stays.
    "network_lexicon.change_refused" Warn
        NetworkLexiconChangeRefused { actor: Option<String>, nsid: Nsid, authority: Did, reason }
        actor, nsid.to_string(), { "authority_did": authority.as_str(), reason };

    /// An admin has created a script.
    "script.created" Info ScriptCreated { actor, trigger, script_type } actor, trigger, { script_type };
    /// An admin has changed a script.
    "script.updated" Info ScriptUpdated { actor, trigger, script_type } actor, trigger, { script_type };
    /// An admin has removed a script.
    "script.deleted" Info ScriptDeleted { actor, trigger } actor, trigger, {};
    /// An admin has begun to record runs of a script, or has changed how many and until when.
    "script.recording_started" Info ScriptRecordingStarted { actor, trigger, percent: i64, until: Timestamp }
        actor, trigger, { percent, until };
    /// An admin has ended a recording and removed its runs.
    "script.recording_deleted" Info ScriptRecordingDeleted { actor, trigger } actor, trigger, {};
    /// An admin has begun to let some callers run a candidate for a script's body.
    "script.rollout_started" Info ScriptRolloutStarted { actor, trigger, revision: i64, percent: i64 }
        actor, trigger, { revision, percent };
    /// An admin has changed which part of the callers runs a candidate, or when it is returned.
    "script.rollout_changed" Info ScriptRolloutChanged { actor, trigger, percent: i64 } actor, trigger, { percent };
    /// A candidate is run by no caller any more: an admin has ended its rollout, or the server has, because it compared badly.
    "script.rollout_returned" Warn ScriptRolloutReturned { actor: Option<String>, trigger, revision: i64, percent: i64, reason }
        actor, trigger, { revision, percent, reason };
    /// An admin has saved a candidate as the script's body. All callers run it.
    "script.rollout_promoted" Info ScriptRolloutPromoted { actor, trigger, revision: i64 } actor, trigger, { revision };
    /// An admin has tried a script, stored or not.
    "script.dry_run" Info ScriptDryRun { actor, trigger, is_stored: bool, network: bool, ok: bool }
        actor, trigger, { "stored": is_stored, network, ok };
    /// A script has called `log()`.
    "script.log" Info ScriptLog { caller: Option<String>, trigger, message } caller, trigger, { trigger, "message": truncate(message) };
    /// A call of a script has failed. Its caller gets one of two fixed texts. The messages that the script of a subscription makes of a
    /// change are left out.
    "script.error" Error
        ScriptError {
            method: Nsid, caller: Option<String>, error, script_source, version: Option<String>, input: Value,
            duration: Duration
        }
        caller, method.to_string(), {
            "error": truncate(error), "script_source": truncate(script_source), version,
            "input": truncate_json(input), "caller_did": caller, "method": method.as_str(), "duration_ms": millis(duration)
        };
    /// A script has answered a call with what its lexicon does not declare. The caller got it; one answer of a hundred is checked. Each
    /// message of a subscription is checked, and is left out.
    "script.output_invalid" Warn ScriptOutputInvalid { method: Nsid, caller: Option<String>, error }
        caller, method.to_string(), { "error": truncate(error), "method": method.as_str() };
    /// A script has answered a call; only with verbose event logging.
    "script.executed" Info
        ScriptExecuted {
            caller: Option<String>, method, version: Option<String>, duration: Duration, response_size: usize
        }
        caller, method, {
            method, "caller_did": caller, version, "duration_ms": millis(duration), response_size
        };
    /// A script has decided about a record or a label; only with verbose event logging.
    "script.executed" Info
        EventScriptExecuted {
            subject, host_kind: &'static str, host_id, trigger, version: Option<String>, attempts: u32
        }
        NONE, subject, { host_kind, host_id, trigger, version, attempts };
    /// A script has failed on a record or a label, which waits as a dead letter.
    "script.dead_lettered" Error ScriptDeadLettered { subject, host_kind, host_id, trigger, error }
        NONE, subject, { host_kind, host_id, trigger, "error": truncate(error) };
    /// An admin has run SQL in the console.
    "sql.run" Info
        SqlRun { actor, sql, explain: bool, rows: usize, duration: Duration, error: Option<String> }
        actor, NONE, {
            "sql": truncate(sql), explain, rows, "duration_ms": millis(duration), "error": error.map(truncate)
        };
    /// An admin has set a variable of scripts.
    "script_variable.upserted" Info ScriptVariableUpserted { actor, key } actor, key, {};
    /// An admin has removed a variable of scripts.
    "script_variable.deleted" Info ScriptVariableDeleted { actor, key } actor, key, {};
    /// An admin has dismissed a dead letter.
    "dead_letter.dismissed" Info DeadLetterDismissed { actor, id, subject } actor, subject, { id };
    /// An admin has let the script decide about a dead letter again.
    "dead_letter.retried" (error_if(error.is_some())) DeadLetterRetried { actor, id, subject, error: Option<String> }
        actor, subject, { id, "error": error.map(truncate) };
    /// An admin has indexed a dead letter without the script.
    "dead_letter.reindexed" (error_if(error.is_some()))
        DeadLetterReindexed { actor, id, subject, error: Option<String> }
        actor, subject, { id, "error": error.map(truncate) };

    /// An admin has changed a setting.
    "setting.updated" Info SettingUpdated { actor, key, detail: Value } actor, key, { = detail };
    /// An admin has reset a setting.
    "setting.deleted" Info SettingDeleted { actor, key } actor, key, {};

    /// An admin has queued a job. Jobs that scripts create are reported when they begin.
    "job.created" Info JobCreated { actor, job_type, job_id } actor, job_type, { job_id };
    /// A worker has begun a job.
    "job.started" Info JobStarted { actor, job_type, job_id } actor, job_type, { job_id, job_type };
    /// A job has ended well.
    "job.completed" Info JobCompleted { actor, job_type, job_id, result: Value }
        actor, job_type, { job_id, "result": truncate_json(result) };
    /// The time of a schedule has come while its job before has not ended, so none was started.
    "schedule.skipped" Warn ScheduleSkipped { name, job_type } NONE, name, { job_type };
    /// A job has stopped and waits to be resumed.
    "job.paused" Info JobPaused { actor, job_type, job_id } actor, job_type, { job_id };
    /// A job was cancelled.
    "job.cancelled" Info JobCancelled { actor, job_type, job_id } actor, job_type, { job_id };
    /// A job has ended with an error.
    "job.failed" Error JobFailed { actor, job_type, job_id, error } actor, job_type, { job_id, "error": truncate(error) };
    /// An admin has asked for the removal of events. The detail has the conditions.
    "event_logs.purged" Warn EventLogPurged { actor, job_id, query: Value } actor, job_id, { = query };

    /// An admin has replaced the key with which the instance authenticates to authorization servers.
    "instance_key.rotated" Warn InstanceKeyRotated { actor, kid } actor, kid, {};
    /// An admin has removed a former key of the instance, and the sessions that began with it.
    "instance_key.deleted" Warn InstanceKeyDeleted { actor, kid, sessions_destroyed: usize } actor, kid, { sessions_destroyed };

    /// The first user, who may do everything, was created.
    "user.bootstrapped" Info UserBootstrapped { did } NONE, did, {};
    /// An admin user was added.
    "user.created" Info UserCreated { actor: Option<String>, did, template: Option<String>, permissions: Vec<String> }
        actor, did, { template, permissions };
    /// The permissions of an admin user have changed.
    "user.permissions_updated" Info UserPermissionsUpdated { actor, id, granted: Vec<String>, revoked: Vec<String> }
        actor, id, { granted, revoked };
    /// An admin user was removed.
    "user.deleted" Info UserDeleted { actor, id } actor, id, {};
    /// Another user is the super user now.
    "user.super_transferred" Warn UserSuperTransferred { actor, from, to } actor, to, { "from_user_id": from, "to_user_id": to };
    /// A caller lacks the permission for a request.
    "auth.permission_denied" Warn PermissionDenied { caller, user_id, permission }
        caller, permission, { user_id, "required_permission": permission };
    /// A user has logged in to the dashboard.
    "session.started" Info SessionStarted { did, id, device: Option<String> } did.clone(), did, { id, device };
    /// A login to the dashboard did not succeed: the account, if it is known, is no user, or its server did not confirm it.
    "session.refused" Warn SessionRefused { did: Option<String>, reason: &'static str } did.clone(), did, { reason };
    /// A user has ended a session of their own, or an admin one of a user.
    "session.ended" Info SessionEnded { actor, did, id, kind: &'static str, device: Option<String> } actor, did, { id, kind, device };
    /// An admin has created an API key.
    "api_key.created" Info ApiKeyCreated { actor, name, key_prefix, permissions: Vec<String> } actor, name, { key_prefix, permissions };
    /// An API key was revoked.
    "api_key.revoked" Info ApiKeyRevoked { actor, id } actor, id, {};
    /// An API client was registered. One of a third party has a parent.
    "api_client.created" Info
        ApiClientCreated { actor, name, client_key, client_id_url, parent_client_id: Option<String> }
        actor, name, {
            client_key, client_id_url, "parent_client_id"?: parent_client_id,
            "self_service"?: parent_client_id.as_ref().map(|_| true)
        };
    /// An API client was changed.
    "api_client.updated" Info ApiClientUpdated { actor, id } actor, id, {};
    /// An API client was removed.
    "api_client.deleted" Info ApiClientDeleted { actor, id } actor, id, {};
    /// An admin has invited a repo.
    "linked_repo.created" Info LinkedRepoCreated { actor, id, did: Option<String>, scopes } actor, id, { did, scopes };
    /// The owner of an invited repo has agreed.
    "linked_repo.authorized" Info LinkedRepoAuthorized { did, id } did, id, {};
    /// A linked repo was removed.
    "linked_repo.deleted" Info LinkedRepoDeleted { actor, id } actor, id, {};
    /// A user has linked an account for its delegates.
    "delegation.account_linked" Info AccountLinked { actor, account } actor, account, {};
    /// A user has unlinked an account.
    "delegation.account_unlinked" Info AccountUnlinked { actor, account } actor, account, {};
    /// A user may act for an account.
    "delegation.delegate_added" Info DelegateAdded { actor, user, account, role: &'static str }
        actor, user, { "account_did": account, role };
    /// A user may no longer act for an account.
    "delegation.delegate_removed" Info DelegateRemoved { actor, user, account } actor, user, { "account_did": account };
    /// An admin has created an alert.
    "alert.created" Info AlertCreated { actor, id, name } actor, id, { name };
    /// An admin has changed an alert.
    "alert.updated" Info AlertUpdated { actor, id, name } actor, id, { name };
    /// An admin has deleted an alert.
    "alert.deleted" Info AlertDeleted { actor, id, name } actor, id, { name };
    /// An admin has sent a test to the target of an alert.
    "alert.tested" (warn_if(error.is_some())) AlertTested { actor, id, name, error: Option<String> }
        actor, id, { name, "error": error.map(truncate) };
    /// The condition of an alert holds for as long as it says.
    "alert.fired" Warn AlertFired { id, name, metric: &'static str, label: Option<String>, value: Option<f64>, threshold: f64 }
        NONE, id, { name, metric, label, value, threshold };
    /// The condition of an alert that had fired does not hold any more.
    "alert.resolved" Info AlertResolved { id, name, metric: &'static str, label: Option<String>, value: Option<f64> }
        NONE, id, { name, metric, label, value };
    /// The webhook of an alert could not be called. The last of the attempts has failed if `attempts` is 5.
    "alert.delivery_failed" Error AlertDeliveryFailed { id, name, attempts: i64, error }
        NONE, id, { name, attempts, "error": truncate(error) };
    /// An admin has added a domain.
    "domain.created" Info DomainCreated { actor, url, id } actor, url, { id };
    /// An admin has removed a domain.
    "domain.deleted" Info DomainDeleted { actor, url, id } actor, url, { id };
    /// Another domain is the primary one.
    "domain.primary_changed" Info DomainPrimaryChanged { actor, url, id } actor, url, { id };
    /// An API client has got a DPoP key for a sign-in.
    "dpop_key.provisioned" Info DpopKeyProvisioned { provision_id, client_key, thumbprint }
        NONE, provision_id, { client_key, thumbprint };
    /// A user has a session with an API client. Without a refresh token it ends within minutes.
    "dpop_session.created" (warn_if(!refreshable)) DpopSessionCreated { did, client_key, scopes, refreshable: bool }
        did, client_key, { scopes, refreshable };
    /// A user's sessions with an API client have ended.
    "dpop_session.deleted" Info DpopSessionDeleted { did, client_key } did, client_key, {};
    /// The session of one device has ended.
    "dpop_session.device_deleted" Info DpopDeviceDeleted { did, client_key, session_id } did, client_key, { session_id };
    /// A service token was refused. The fragment is that of its audience.
    "service_auth.access_denied" Error ServiceAuthDenied { caller, method, fragment: Option<String>, reason }
        caller, method, { fragment, reason };

    /// The identity of the instance has changed.
    "service_identity.updated" Info ServiceIdentityUpdated { actor, mode: &'static str } actor, NONE, { mode };
    /// A did:plc was registered for the instance.
    "service_identity.registered" Info ServiceIdentityRegistered { actor, did } actor, did, {};
    /// An admin has seen the rotation key, which controls the instance's DID.
    "service_identity.rotation_key_exported" Warn RotationKeyExported { actor } actor, NONE, {};
    /// The setup of the instance has ended.
    "setup.completed" Info SetupCompleted {} NONE, NONE, {};
    /// An admin has added a service to the instance's DID document.
    "service_entry.created" Info ServiceEntryCreated { actor, id: i64, fragment, service_type }
        actor, id.to_string(), { "fragment_id": fragment, service_type };
    /// A service has changed. The detail has the changed fields, or the methods that were bound or unbound.
    "service_entry.updated" Info ServiceEntryUpdated { actor, id: i64, change: Value } actor, id.to_string(), { = change };
    /// An admin has removed a service.
    "service_entry.deleted" Info ServiceEntryDeleted { actor, id: i64 } actor, id.to_string(), {};
    /// The instance's DID document at the PLC directory is up to date.
    "service_entry.plc_synced" Info PlcSynced { actor, mode: &'static str } actor, NONE, { mode };
    /// An admin has added a key to the instance's DID document.
    "verification_method.created" Info VerificationMethodCreated { actor, fragment } actor, fragment, { "fragment_id": fragment };
    /// An admin has removed a key from the instance's DID document.
    "verification_method.deleted" Info VerificationMethodDeleted { actor, fragment } actor, fragment, { "fragment_id": fragment };

    /// A backfill was queued; without an actor by the server itself. A `did` is its only repo.
    "backfill.started" Info
        BackfillStarted { actor: Option<String>, collection: Option<String>, job_id, did: Option<String> }
        actor, collection, {
            job_id, "scope": if did.is_some() { "accounts" } else { "network" }, "account_count": did.map(|_| 1)
        };
    /// A backfill of the repos was queued that another could not read.
    "backfill.retry_started" Info
        BackfillRetryStarted {
            actor: Option<String>, collection: Option<String>, job_id, source_job_id, retried_repos: u64
        }
        actor, collection, { job_id, source_job_id, retried_repos };
    /// A backfill that reads what changed in gaps of the stream was queued, or one that waits was extended.
    "backfill.catch_up_queued" Info CatchUpQueued { job_id, changed_since: Timestamp, gaps: u64 }
        NONE, job_id, { job_id, changed_since, gaps };
    /// An admin has asked a backfill to stop for now.
    "backfill.pausing" Info BackfillPausing { actor, job_id } actor, NONE, { job_id };
    /// An admin has resumed a backfill.
    "backfill.resumed" Info BackfillResumed { actor, job_id } actor, NONE, { job_id };
    /// An admin has asked a backfill to stop for good.
    "backfill.cancelling" Info BackfillCancelling { actor, job_id } actor, NONE, { job_id };
    /// A backfill has stopped for good.
    "backfill.cancelled" Info BackfillCancelled { actor: Option<String>, job_id } actor, NONE, { job_id };
    /// A backfill has read its repos, except those that failed.
    "backfill.completed" (warn_if(failed_repos > 0))
        BackfillCompleted {
            collection: Option<String>, job_id, total_repos: i64, failed_repos: i64, total_records: i64
        }
        NONE, collection, { job_id, total_repos, failed_repos, total_records };
    /// A backfill could not go on, or read nothing.
    "backfill.failed" Error BackfillFailed { collection: Option<String>, job_id, error }
        NONE, collection, { job_id, "error": truncate(error) };

    /// A record was indexed; only with verbose event logging.
    "record.created" Info RecordCreated { uri: RecordUri } NONE, uri.to_string(), { ..uri };
    /// A record was removed by an admin, or by the stream (only with verbose event logging).
    "record.deleted" Info RecordDeleted { actor: Option<String>, uri: RecordUri, reason: Option<String> }
        actor, uri.to_string(), { ..uri, "reason"?: reason };
    /// An admin has removed all records of a collection.
    "record.collection_deleted" Info CollectionDeleted { actor, collection, deleted: u64 } actor, collection, { deleted };
    /// A script excluded the record from the index; only with verbose event logging.
    "record.skipped" Info RecordSkipped { uri: RecordUri, reason } NONE, uri.to_string(), { ..uri, reason };
    /// A record does not have the CID that the stream claims, so it is not indexed.
    "record.cid_mismatch" Warn RecordCidMismatch { uri: RecordUri, claimed_cid, reason }
        NONE, uri.to_string(), { ..uri, claimed_cid, reason };
    /// The database can't store the record, so it is not indexed.
    "record.rejected" Warn RecordRejected { uri: RecordUri, reason } NONE, uri.to_string(), { ..uri, reason };
    /// An account with records in the index was hidden or shown.
    "account.status_changed" Info AccountStatusChanged { did: Did, status: &'static str } NONE, did.to_string(), { status };

    /// An operator or a script has hidden a record or an account here, or taken it down.
    "moderation.created" Warn
        ModerationCreated {
            actor: Option<String>, script: Option<String>, subject, id: i64, action: &'static str, reason,
            expires_at: Option<Timestamp>
        }
        actor, subject, { id, action, reason, expires_at, script };
    /// An operator or a script has lifted that, or its time was over.
    "moderation.lifted" Info
        ModerationLifted { actor: Option<String>, script: Option<String>, subject, id: i64, reason: Option<String> }
        actor, subject, { id, reason, script };

    /// An operator has applied a label of this instance, or negated one.
    "label.issued" Info LabelIssued { actor, uri, val, neg: bool, seq: i64 } actor, uri, { val, neg, seq };

    /// The stream is connected.
    "jetstream.connected" Info JetstreamConnected { url } NONE, NONE, { url };
    /// The connection of the stream has ended.
    "jetstream.disconnected" Warn JetstreamDisconnected { reason } NONE, NONE, { reason };
    /// Events of a period may be missing from the index.
    "jetstream.gap" Warn StreamGap { url, reason: &'static str, from: Timestamp, to: Timestamp } NONE, NONE, { url, reason, from, to };

    /// An operator has changed the settings of a space.
    "space.updated" Info SpaceUpdated { actor, space } actor, space, {};
    /// An operator has deleted a space.
    "space.deleted" Warn SpaceDeleted { actor, space } actor, space, {};
    /// An operator has removed a member of a space.
    "space.member_removed" Warn SpaceMemberRemoved { actor, space, member } actor, space, { member };
    /// An operator has revoked an invite to a space.
    "space.invite_revoked" Info SpaceInviteRevoked { actor, space, id } actor, space, { id };
    /// An operator may inspect the records of a space or an account for some time. The actor has granted that.
    "space.inspection_granted" Warn
        SpaceInspectionGranted { actor, operator, subject, id, reason, expires_at: Timestamp }
        actor, subject, { operator, id, reason, expires_at };
    /// An inspection was ended before its time.
    "space.inspection_revoked" Info SpaceInspectionRevoked { actor, operator, subject, id } actor, subject, { operator, id };
    /// An operator has inspected records in spaces. The event has their addresses, and not their contents.
    "space.records_inspected" Warn SpaceRecordsInspected { actor, subject, id, reason, uris: Vec<String> }
        actor, subject, { id, reason, uris };

    /// An admin has added a labeler.
    "labeler.added" Info LabelerAdded { actor, did: Did } actor, did.to_string(), {};
    /// An admin has paused or resumed a labeler.
    "labeler.updated" Info LabelerUpdated { actor, did, status: &'static str } actor, did, { status };
    /// An admin has removed a labeler and its labels.
    "labeler.deleted" Info LabelerDeleted { actor, did } actor, did, {};
    /// A labeler's subscription is connected.
    "labeler.connected" Info LabelerConnected { did: Did } NONE, did.to_string(), { "did": did.as_str() };
    /// The connection to a labeler has ended, or the first of a series of attempts failed.
    "labeler.disconnected" Warn LabelerDisconnected { did: Did, last_seq: Option<i64>, reason }
        NONE, did.to_string(), { "did": did.as_str(), last_seq, reason };
    /// A labeler doesn't know our cursor and is read from its first message again.
    "labeler.cursor_reset" Warn LabelerCursorReset { did: Did, cursor: Option<i64> }
        NONE, did.to_string(), { "did": did.as_str(), cursor };
    /// A labeler no longer has the messages after our cursor: their labels are missing.
    "labeler.cursor_outdated" Warn LabelerCursorOutdated { did: Did, cursor: Option<i64> }
        NONE, did.to_string(), { "did": did.as_str(), cursor };
    /// Messages of a labeler that ended every connection are left out.
    "labeler.messages_skipped" Warn LabelerMessagesSkipped { did: Did, from: i64, to: i64 }
        NONE, did.to_string(), { "did": did.as_str(), from, to };
    /// Labels or messages were refused. Recorded for the first of each kind; the metrics count them.
    "labeler.labels_refused" Warn LabelerLabelsRefused { did: Did, kind: &'static str, reason }
        NONE, did.to_string(), { "did": did.as_str(), kind, reason };

    /// A user has linked an account at another service, perhaps instead of another one, whose tokens are revoked.
    "external_account.linked" Info
        ExternalAccountLinked { did, plugin, account, collections: Vec<String>, replaced: Option<String> }
        did, plugin, { "account_id": account, collections, replaced };
    /// A sign-in at another service did not succeed. Its user is not known if the sign-in is not.
    "external_account.link_failed" Warn ExternalAccountLinkFailed { did: Option<String>, plugin, reason }
        did, plugin, { "reason": truncate(reason) };
    /// An account was unlinked. The reason is `user`, `plugin_removed` or `account_deleted`.
    "external_account.unlinked" Info ExternalAccountUnlinked { did, plugin, account, reason: &'static str }
        did, plugin, { "account_id": account, reason };
    /// The tokens of an unlinked account could not be revoked at the service: they expire by themselves.
    "external_account.revocation_failed" Warn ExternalAccountRevocationFailed { did, plugin, account, error }
        did, plugin, { "account_id": account, error };
    /// The service no longer accepts the tokens of an account.
    "external_account.expired" Warn ExternalAccountExpired { did, plugin, account } did, plugin, { "account_id": account };
    /// An account was synced. The note says why the first item was skipped.
    "external_account.synced" Info
        ExternalAccountSynced { did, plugin, account, processed: i64, written: i64, skipped: i64, note: Option<String> }
        did, plugin, { "account_id": account, processed, written, skipped, note };
    /// A sync has failed. The error has a code and a text.
    "external_account.sync_failed" Warn
        ExternalAccountSyncFailed { did, plugin, account, error, processed: i64, written: i64 }
        did, plugin, { "account_id": account, error, processed, written };

    /// A plugin was installed; without an actor by the configuration.
    "plugin.added" Info
        PluginAdded { actor: Option<String>, id, url: Option<String>, version, module_sha256, granted: Vec<String> }
        actor, id, { url, version, "sha256": module_sha256, granted };
    /// Another version of a plugin was installed. The changes are what differs from the one before.
    "plugin.reloaded" Info PluginReloaded { actor: Option<String>, id, url: Option<String>, changes: Value } actor, id, { url, changes };
    /// A plugin was not installed or not reloaded. Without a subject its manifest can't be read.
    "plugin.refused" Warn PluginRefused { actor: Option<String>, id: Option<String>, url: Option<String>, error }
        actor, id, { url, error };
    /// An admin has removed a plugin.
    "plugin.removed" Info PluginRemoved { actor, id } actor, id, {};
    /// An admin has set secrets of a plugin.
    "plugin.secrets_updated" Info PluginSecretsUpdated { actor, id } actor, id, {};
    /// An admin has changed what a plugin may do.
    "plugin.grants_updated" Info PluginGrantsUpdated { actor, id, granted: Vec<String>, denied: Vec<String> }
        actor, id, { granted, denied };
    /// An admin has resumed a paused plugin.
    "plugin.resumed" Info PluginResumed { actor, id } actor, id, {};
    /// A line of a plugin's log. The level is `debug`, `info`, `warn` or `error`.
    "plugin.log" (severity)
        PluginLog { plugin, level: &'static str, severity: Severity, message, fields: Option<Value> }
        NONE, plugin, { level, message, "fields"?: fields };
    /// A call of a plugin gave no answer.
    "plugin.failed" Warn PluginFailed { plugin, interface: &'static str, cause: &'static str, error }
        NONE, plugin, { interface, cause, error };
    /// A plugin trapped too often in a row and is paused.
    "plugin.paused" Error PluginPaused { plugin, traps: u32, error } NONE, plugin, { traps, error };
}
