//! Which clients a server trusts after anything has changed: the whole matrix in memory, and the parts of it that only
//! endpoints have on loopback.

mod authority;
mod endpoints;
mod matrix;
