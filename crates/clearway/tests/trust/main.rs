//! The clients that a server trusts after keys, processes or authorities have changed: the whole matrix in memory, and the parts
//! of it that need endpoints on loopback.

mod authority;
mod endpoints;
mod matrix;
