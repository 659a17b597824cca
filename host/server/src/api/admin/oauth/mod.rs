//! `/admin/oauth/*`: manages the instance as an OAuth client.

pub mod instance_key;
