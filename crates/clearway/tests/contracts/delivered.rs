//! Delivery: what `stopped()` confirms can be read by the peer's application.
