//! Calls of the host that wait to be made at the same time, and the answers that the guest has not taken yet. `S` is the state on
//! which they are made.

use std::any::Any;
use std::collections::BTreeMap;

use futures_util::future::BoxFuture;

use super::fault;
use crate::scripts::bindings::Refusal;
use crate::scripts::bindings::belvedere::script::types::Fault;
use crate::scripts::limits;

/// The result of a call, of the type that its function has.
pub(super) type CallResult = Box<dyn Any + Send + Sync>;

pub(super) type MakeCall<S> = Box<dyn for<'a> FnOnce(&'a mut S) -> BoxFuture<'a, CallResult> + Send + Sync>;

/// The meaning of the next call of the host.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// It waits under this number.
    Defer(u32),
    /// It returns the answer of the call with this number.
    Collect(u32),
}

pub(super) struct WaitingCall<S> {
    pub(super) number: u32,
    pub(super) make: MakeCall<S>,
    /// Requests to other servers that it counts.
    pub(super) requests: u32,
    /// The place in the profile that makes it.
    pub(super) place: Option<u32>,
}

/// A call that was made. The fault replaces a result above a limit of the run.
struct MadeCall {
    result: Result<CallResult, Fault>,
    /// Added to the number of an answer in its fault.
    first_answer: u32,
}

pub(super) struct WaitingCalls<S> {
    /// `None`: the next call is made at once.
    pub(super) next: Option<Step>,
    pub(super) waiting: Vec<WaitingCall<S>>,
    made: BTreeMap<u32, MadeCall>,
}

impl<S> Default for WaitingCalls<S> {
    fn default() -> Self {
        Self { next: None, waiting: Vec::new(), made: BTreeMap::new() }
    }
}

impl<S> WaitingCalls<S> {
    /// Keeps a result until the guest takes it. The oldest is dropped when there are many: a script that closes the coroutines of its
    /// calls never takes theirs.
    pub(super) fn keep(&mut self, number: u32, result: Result<CallResult, Fault>, first_answer: u32) {
        self.made.insert(number, MadeCall { result, first_answer });
        if self.made.len() > limits::KEPT_ANSWERS {
            self.made.pop_first();
        }
    }

    /// The result of a call that was made.
    pub(super) fn take<R: 'static>(&mut self, number: u32) -> Result<R, Refusal> {
        let lost = || fault::limit("too many answers wait at once", limits::KEPT_ANSWERS);
        let MadeCall { result, first_answer } = self.made.remove(&number).ok_or_else(lost)?;
        let other = |_| Refusal::Trap(wasmtime::Error::msg("the guest takes the answer of another function"));
        match *result?.downcast::<Result<R, Refusal>>().map_err(other)? {
            Err(Refusal::Fault(Fault { answer: Some(answer), code, message, status })) => {
                let answer = Some(answer + first_answer);
                Err(Fault { code, message, status, answer }.into())
            }
            result => result,
        }
    }
}
