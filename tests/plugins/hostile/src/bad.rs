//! Functions that need no capability: loops, traps, memory, and results that no host should take.

use std::hint::black_box;

pub(crate) fn hang() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Computes for some time, and returns.
pub(crate) fn spin(turns: u64) -> u64 {
    (0..turns).fold(0, |sum, turn| black_box(sum ^ turn))
}

pub(crate) fn trap() -> ! {
    std::process::abort()
}

/// Uses up the stack.
pub(crate) fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if black_box(true) { recurse(depth + 1) + frame[0] } else { depth }
}

/// Grows the memory until the host refuses. Returns its pages.
#[cfg(target_arch = "wasm32")]
pub(crate) fn grow() -> usize {
    while std::arch::wasm32::memory_grow(0, 16) != usize::MAX {}
    std::arch::wasm32::memory_size(0)
}

#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn grow() -> usize {
    0
}

/// Fills memory until the allocator gives up.
pub(crate) fn allocate() -> usize {
    let mut kept = Vec::new();
    loop {
        kept.push(black_box(vec![1_u8; 1 << 20]));
        black_box(&kept);
    }
}

/// A JSON string of `length` bytes.
pub(crate) fn big(length: usize) -> String {
    format!("\"{}\"", "x".repeat(length - 2))
}

pub(crate) fn broken_text() -> String {
    unsafe { String::from_utf8_unchecked(vec![b'"', 0xff, 0xfe, b'"']) }
}
