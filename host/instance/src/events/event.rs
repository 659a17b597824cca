//! Defines every kind of event. [`super::describe`] maps them to rows of the event log.

use std::time::Duration;

use serde_json::Value;

use super::GapEvent;
use super::external_accounts::ExternalAccountEvent;
use super::labelers::LabelerEvent;
use super::network_lexicons::NetworkLexiconEvent;
use super::plugin_calls::PluginCallEvent;
use super::plugins::PluginEvent;
use super::script_error::ScriptError;
use super::service_identity::ServiceIdentityEvent;
use belvedere_protocol::atproto::{Did, RecordUri};

/// An event. `actor` is the DID of the acting user.
#[derive(Clone, Debug)]
pub enum Event {
    LexiconCreated {
        actor: String,
        nsid: String,
        revision: i64,
    },
    LexiconUpdated {
        actor: String,
        nsid: String,
        revision: i64,
    },
    LexiconDeleted {
        actor: String,
        nsid: String,
    },
    /// A changed lexicon, or one that it refers to, made records of the collection invalid.
    LexiconInvalidatesRecords {
        nsid: String,
        checked: usize,
        invalidated: usize,
        reason: String,
    },
    NetworkLexicon(NetworkLexiconEvent),

    ScriptCreated {
        actor: String,
        trigger: String,
        script_type: String,
    },
    ScriptUpdated {
        actor: String,
        trigger: String,
        script_type: String,
    },
    ScriptDeleted {
        actor: String,
        trigger: String,
    },
    /// A script was tried, stored or not.
    ScriptDryRun {
        actor: String,
        trigger: String,
        is_stored: bool,
        network: bool,
        ok: bool,
    },
    ScriptVariableUpserted {
        actor: String,
        key: String,
    },
    ScriptVariableDeleted {
        actor: String,
        key: String,
    },
    /// `log()` in a script.
    ScriptLog {
        caller: Option<String>,
        trigger: String,
        message: String,
    },
    ScriptError(Box<ScriptError>),
    /// Only with verbose event logging.
    ScriptExecuted {
        caller: Option<String>,
        method: String,
        duration: Duration,
        response_size: usize,
    },

    SettingUpdated {
        actor: String,
        key: String,
        detail: Value,
    },
    SettingDeleted {
        actor: String,
        key: String,
    },

    /// A record or label script; only with verbose event logging.
    EventScriptExecuted {
        subject: String,
        host_kind: &'static str,
        host_id: String,
        trigger: String,
        attempts: u32,
    },
    ScriptDeadLettered {
        subject: String,
        host_kind: String,
        host_id: String,
        trigger: String,
        error: String,
    },
    DeadLetterDismissed {
        actor: String,
        id: String,
        subject: String,
    },
    DeadLetterRetried {
        actor: String,
        id: String,
        subject: String,
        error: Option<String>,
    },
    DeadLetterReindexed {
        actor: String,
        id: String,
        subject: String,
        error: Option<String>,
    },

    JobStarted {
        actor: String,
        job_type: String,
        job_id: String,
    },
    JobCompleted {
        actor: String,
        job_type: String,
        job_id: String,
        result: Value,
    },
    JobPaused {
        actor: String,
        job_type: String,
        job_id: String,
    },
    JobCancelled {
        actor: String,
        job_type: String,
        job_id: String,
    },
    JobFailed {
        actor: String,
        job_type: String,
        job_id: String,
        error: String,
    },

    /// An admin asked for the removal of events.
    EventLogPurged {
        actor: String,
        job_id: String,
        /// The conditions.
        query: Value,
    },
    InstanceKeyRotated {
        actor: String,
        kid: String,
    },
    InstanceKeyDeleted {
        actor: String,
        kid: String,
        sessions_destroyed: usize,
    },

    UserBootstrapped {
        did: String,
    },
    UserCreated {
        actor: Option<String>,
        did: String,
        template: Option<String>,
        permissions: Vec<String>,
    },
    UserPermissionsUpdated {
        actor: String,
        id: String,
        granted: Vec<String>,
        revoked: Vec<String>,
    },
    UserDeleted {
        actor: String,
        id: String,
    },
    UserSuperTransferred {
        actor: String,
        from: String,
        to: String,
    },
    PermissionDenied {
        caller: String,
        user_id: String,
        permission: String,
    },
    ApiKeyCreated {
        actor: String,
        name: String,
        key_prefix: String,
        permissions: Vec<String>,
    },
    ApiKeyRevoked {
        actor: String,
        id: String,
    },
    ApiClientCreated {
        actor: String,
        name: String,
        client_key: String,
        client_id_url: String,
        /// Set for a child client that a third party registered under this client.
        parent_client_id: Option<String>,
    },
    ApiClientUpdated {
        actor: String,
        id: String,
    },
    ApiClientDeleted {
        actor: String,
        id: String,
    },
    LinkedRepoCreated {
        actor: String,
        id: String,
        did: Option<String>,
        scopes: String,
    },
    LinkedRepoAuthorized {
        did: String,
        id: String,
    },
    LinkedRepoDeleted {
        actor: String,
        id: String,
    },
    AccountLinked {
        actor: String,
        account: String,
    },
    AccountUnlinked {
        actor: String,
        account: String,
    },
    DelegateAdded {
        actor: String,
        user: String,
        account: String,
        role: &'static str,
    },
    DelegateRemoved {
        actor: String,
        user: String,
        account: String,
    },
    DomainCreated {
        actor: String,
        url: String,
        id: String,
    },
    DomainDeleted {
        actor: String,
        url: String,
        id: String,
    },
    DomainPrimaryChanged {
        actor: String,
        url: String,
        id: String,
    },
    DpopKeyProvisioned {
        provision_id: String,
        client_key: String,
        thumbprint: String,
    },
    DpopSessionCreated {
        did: String,
        client_key: String,
        /// Space-separated.
        scopes: String,
        refreshable: bool,
    },
    DpopSessionDeleted {
        did: String,
        client_key: String,
    },
    DpopDeviceDeleted {
        did: String,
        client_key: String,
        session_id: String,
    },
    ServiceAuthDenied {
        caller: String,
        method: String,
        /// Of the token's audience: the service that the caller meant.
        fragment: Option<String>,
        reason: String,
    },
    ServiceIdentity(ServiceIdentityEvent),

    /// `actor` is `None` when the server created the job itself.
    BackfillStarted {
        actor: Option<String>,
        collection: Option<String>,
        job_id: String,
        /// The only repo of the job.
        did: Option<String>,
    },
    BackfillRetryStarted {
        actor: Option<String>,
        collection: Option<String>,
        job_id: String,
        source_job_id: String,
        retried_repos: u64,
    },
    BackfillPausing {
        actor: String,
        job_id: String,
    },
    BackfillResumed {
        actor: String,
        job_id: String,
    },
    BackfillCancelling {
        actor: String,
        job_id: String,
    },
    BackfillCancelled {
        actor: Option<String>,
        job_id: String,
    },
    BackfillCompleted {
        collection: Option<String>,
        job_id: String,
        total_repos: i64,
        failed_repos: i64,
        total_records: i64,
    },
    BackfillFailed {
        collection: Option<String>,
        job_id: String,
        error: String,
    },

    /// Only with verbose event logging.
    RecordCreated {
        uri: RecordUri,
    },
    /// By the stream (only with verbose event logging) or by an admin (always).
    RecordDeleted {
        actor: Option<String>,
        uri: RecordUri,
    },
    CollectionDeleted {
        actor: String,
        collection: String,
        deleted: u64,
    },
    /// A script excluded the record from the index; only with verbose event logging.
    RecordSkipped {
        uri: RecordUri,
        reason: String,
    },
    RecordCidMismatch {
        uri: RecordUri,
        claimed_cid: String,
        reason: String,
    },
    /// The database can't store this record, so it is not indexed.
    RecordRejected {
        uri: RecordUri,
        reason: String,
    },
    /// Of an account with records in the index.
    AccountStatusChanged {
        did: Did,
        status: &'static str,
    },

    JetstreamConnected {
        url: String,
    },
    JetstreamDisconnected {
        reason: String,
    },
    StreamGap(GapEvent),
    Labeler(LabelerEvent),
    ExternalAccount(ExternalAccountEvent),
    Plugin(PluginEvent),
    PluginCall(PluginCallEvent),
}
