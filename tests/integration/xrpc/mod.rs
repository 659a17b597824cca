mod builtin;
mod procedure;
mod scripted;
