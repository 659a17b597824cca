//! What is shared, built once, in order.
