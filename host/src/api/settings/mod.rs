//! `/settings`: what everybody may see of the instance's settings.

pub mod logo;
