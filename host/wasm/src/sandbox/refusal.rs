//! Errors of host functions.

use super::NoMemory;

/// The error of a host function that gives no value. `F` is the fault of an engine's contract.
#[derive(Debug)]
pub enum Refusal<F> {
    /// The program may handle it.
    Fault(F),
    /// It ends the run.
    Trap(wasmtime::Error),
}

impl<F> Refusal<F> {
    /// The fault that the program gets.
    ///
    /// # Errors
    /// When the run ends instead.
    pub fn into_fault(self) -> wasmtime::Result<F> {
        match self {
            Self::Fault(fault) => Ok(fault),
            Self::Trap(error) => Err(error),
        }
    }
}

impl<F> From<NoMemory> for Refusal<F> {
    fn from(error: NoMemory) -> Self {
        Self::Trap(error.into())
    }
}
