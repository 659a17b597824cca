//! Chores that need more than a line of make.

fn main() {}
