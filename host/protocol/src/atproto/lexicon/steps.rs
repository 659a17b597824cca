//! Counts comparisons, so that tests can bound the work instead of its time. Elsewhere it does nothing.

#[cfg(test)]
thread_local! {
    static COUNTED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a comparison of a value with one of a list.
#[inline]
pub(in crate::atproto) fn count() {
    #[cfg(test)]
    COUNTED.set(COUNTED.get() + 1);
}

/// The comparisons that this thread has made.
#[cfg(test)]
pub(in crate::atproto) fn counted() -> usize {
    COUNTED.get()
}
