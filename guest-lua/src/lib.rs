//! The component, built by `build.rs`.
