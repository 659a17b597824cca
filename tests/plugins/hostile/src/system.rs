//! Functions that use WASI.

use serde_json::{Value, json};

use crate::wasi::cli::{environment, exit, stdout};
use crate::wasi::clocks::monotonic_clock;
use crate::wasi::filesystem::preopens;
use crate::wasi::random::random;

pub(crate) fn exit() -> ! {
    exit::exit(Ok(()));
    crate::bad::trap()
}

/// Whatever the host lets a program see of its environment.
pub(crate) fn environment() -> Value {
    json!([environment::get_environment(), environment::get_arguments(), preopens::get_directories().len()])
}

/// Waits for an hour.
pub(crate) fn sleep() -> ! {
    loop {
        monotonic_clock::subscribe_duration(3_600_000_000_000).block();
    }
}

/// Waits for some seconds.
pub(crate) fn nap(seconds: u64) -> bool {
    monotonic_clock::subscribe_duration(seconds * 1_000_000_000).block();
    true
}

pub(crate) fn print(text: &str) -> bool {
    stdout::get_stdout().blocking_write_and_flush(text.as_bytes()).is_ok()
}

/// Prints 16 MiB. Returns how much of it the host took.
pub(crate) fn print_flood() -> usize {
    let out = stdout::get_stdout();
    let page = [b'x'; 4096];
    (0..4096).filter(|_| out.blocking_write_and_flush(&page).is_ok()).count()
}

pub(crate) fn random(length: u64) -> usize {
    random::get_random_bytes(length).len()
}

/// Keeps timers open.
pub(crate) fn timers(count: usize) -> usize {
    let timers: Vec<_> = (0..count).map(|_| monotonic_clock::subscribe_duration(1)).collect();
    timers.len()
}
