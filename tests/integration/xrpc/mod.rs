mod builtin;
mod forward;
mod nested;
mod procedure;
mod scripted;
mod service;
mod shares;
mod statuses;
