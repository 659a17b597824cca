//! The statuses of jobs and of backfills, and which status follows after which request.

use super::text_enum::{TextEnum, text_enum};

text_enum! {
    /// A request of an admin or a worker for a job or a backfill. Its text is the participle for messages.
    pub enum Request {
        /// A worker begins a job.
        Claim = "claimed",
        Pause = "paused",
        Resume = "resumed",
        Cancel = "cancelled",
        /// The run has ended well.
        Complete = "completed",
        /// The run has ended with an error.
        Fail = "failed",
        /// No worker runs it any more, or none did.
        Release = "released",
    }
}

text_enum! {
    /// The status of a job that a script or an admin has queued.
    pub enum JobStatus {
        Pending = "pending",
        Running = "running",
        /// Its worker was asked to stop, as in `cancelling`.
        Pausing = "pausing",
        Paused = "paused",
        Cancelling = "cancelling",
        Cancelled = "cancelled",
        Completed = "completed",
        Failed = "failed",
    }
}

text_enum! {
    /// The status of a backfill. One that waits in the queue is running, with the stage `pending`.
    pub enum BackfillStatus {
        Running = "running",
        /// Its worker was asked to stop, as in `cancelling`.
        Pausing = "pausing",
        Paused = "paused",
        Cancelling = "cancelling",
        Cancelled = "cancelled",
        Completed = "completed",
        Failed = "failed",
    }
}

text_enum! {
    /// The stage of a backfill. The stage of an ended one has the text of its status.
    pub enum Stage {
        Pending = "pending",
        DiscoveringRepos = "discovering_repos",
        ResolvingAndFetching = "resolving_and_fetching",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

text_enum! {
    /// The status of a repo in a backfill.
    pub enum RepoStatus {
        Pending = "pending",
        Completed = "completed",
        Failed = "failed",
    }
}

/// A status that requests change.
pub trait Status: TextEnum {
    /// The status after a request; `None` when this status does not allow it.
    fn after(self, request: Request) -> Option<Self>;

    /// Whether the status stays.
    fn has_ended(self) -> bool {
        Request::ALL.iter().all(|request| self.after(*request).is_none())
    }

    /// The statuses that allow a request, each with the next one.
    fn steps(request: Request) -> impl Iterator<Item = (Self, Self)> {
        Self::ALL.iter().filter_map(move |from| Some((*from, from.after(request)?)))
    }

    /// SQL: the list of some statuses, in parentheses.
    fn sql_list(is_listed: impl Fn(Self) -> bool) -> String {
        let listed: Vec<_> =
            Self::ALL.iter().filter(|status| is_listed(**status)).map(|one| one.sql()).collect();
        format!("({})", listed.join(", "))
    }

    /// SQL: whether the column `status` allows a request.
    fn sql_allows(request: Request) -> String {
        format!("status IN {}", Self::sql_list(|status| status.after(request).is_some()))
    }

    /// SQL: the next status of the column `status` after a request; NULL when that does not allow it.
    fn sql_after(request: Request) -> String {
        let steps: Vec<_> =
            Self::steps(request).map(|(from, to)| format!("WHEN {} THEN {}", from.sql(), to.sql())).collect();
        format!("CASE status {} END", steps.join(" "))
    }
}

impl Status for JobStatus {
    fn after(self, request: Request) -> Option<Self> {
        Some(match (self, request) {
            (Self::Paused, Request::Resume) | (Self::Running, Request::Release) => Self::Pending,
            (Self::Pending, Request::Claim) => Self::Running,
            (Self::Running, Request::Complete) => Self::Completed,
            (Self::Running, Request::Fail) => Self::Failed,
            (Self::Running, Request::Pause) => Self::Pausing,
            (Self::Running, Request::Cancel) => Self::Cancelling,
            // These two prevail over the outcome of the run.
            (Self::Pausing, Request::Complete | Request::Fail | Request::Release) => Self::Paused,
            (Self::Cancelling, Request::Complete | Request::Fail | Request::Release)
            | (Self::Pending | Self::Paused, Request::Cancel) => Self::Cancelled,
            _ => return None,
        })
    }
}

impl Status for BackfillStatus {
    fn after(self, request: Request) -> Option<Self> {
        Some(match (self, request) {
            (Self::Paused, Request::Resume) => Self::Running,
            (Self::Running | Self::Pausing, Request::Complete) => Self::Completed,
            (Self::Running | Self::Pausing, Request::Fail) => Self::Failed,
            (Self::Running, Request::Pause) => Self::Pausing,
            (Self::Running, Request::Cancel) => Self::Cancelling,
            (Self::Pausing, Request::Release) => Self::Paused,
            (Self::Cancelling, Request::Complete | Request::Fail | Request::Release) => Self::Cancelled,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every step of a kind of job: the request, the status before and the one after.
    fn steps<S: Status>() -> Vec<String> {
        let of = |request: Request| {
            let steps = S::steps(request).map(|(from, to)| format!("{}>{}", from.sql(), to.sql()));
            format!("{request}: {}", steps.collect::<Vec<_>>().join(", ").replace('\'', ""))
        };
        Request::ALL.iter().map(|request| of(*request)).collect()
    }

    #[test]
    fn requests_change_jobs_where_their_status_allows_it() {
        let expected = [
            "claimed: pending>running",
            "paused: running>pausing",
            "resumed: paused>pending",
            "cancelled: pending>cancelled, running>cancelling, paused>cancelled",
            "completed: running>completed, pausing>paused, cancelling>cancelled",
            "failed: running>failed, pausing>paused, cancelling>cancelled",
            "released: running>pending, pausing>paused, cancelling>cancelled",
        ];
        assert_eq!(steps::<JobStatus>(), expected);
    }

    #[test]
    fn requests_change_backfills_where_their_status_allows_it() {
        let expected = [
            "claimed: ",
            "paused: running>pausing",
            "resumed: paused>running",
            "cancelled: running>cancelling",
            "completed: running>completed, pausing>completed, cancelling>cancelled",
            "failed: running>failed, pausing>failed, cancelling>cancelled",
            "released: pausing>paused, cancelling>cancelled",
        ];
        assert_eq!(steps::<BackfillStatus>(), expected);
    }

    #[test]
    fn a_status_without_a_next_one_has_ended() {
        let ended: Vec<_> = BackfillStatus::ALL.iter().filter(|status| status.has_ended()).collect();
        assert_eq!(ended, [&BackfillStatus::Cancelled, &BackfillStatus::Completed, &BackfillStatus::Failed]);
        let ended = JobStatus::ALL.iter().filter(|status| status.has_ended()).map(|status| status.as_str());
        assert!(ended.eq(["cancelled", "completed", "failed"]));
    }

    #[test]
    fn statements_contain_the_texts_of_statuses() {
        assert_eq!(JobStatus::sql_allows(Request::Resume), "status IN ('paused')");
        let expected = "CASE status WHEN 'pausing' THEN 'paused' WHEN 'cancelling' THEN 'cancelled' END";
        assert_eq!(BackfillStatus::sql_after(Request::Release), expected);
    }

    #[test]
    fn another_text_is_an_error_that_names_it() {
        assert_eq!("paused".parse(), Ok(JobStatus::Paused));
        assert_eq!("done".parse::<JobStatus>(), Err(r#""done" is no JobStatus"#.to_owned()));
    }
}
