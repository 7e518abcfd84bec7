//! [Clearway](clearway)'s QUIC connections for the crate [h3](::h3).
//!
//! An implementation of h3's traits reports failures with h3's own error types, and h3 decides by
//! them how to end a request or a connection. [`error`] converts Clearway's errors.

pub mod error;
