//! The PLC directory: operations that create and change a did:plc, and the client that sends them.

mod directory;
mod operation;

pub use directory::{Directory, PlcError};
pub use operation::{InvalidOperation, Publication, Signed, genesis, merged, signed_update};
