//! Labels (`com.atproto.label.defs#label`) and the frames of a subscription to a labeler
//! (`com.atproto.label.subscribeLabels`).

mod cbor;
mod encode;
mod frame;
mod label;
#[cfg(test)]
mod tests;

pub use encode::{NewLabel, error_message, info_message};
pub use frame::{LabelFrame, decode};
pub use label::{InvalidLabel, SignedLabel, check_subject, is_value};
