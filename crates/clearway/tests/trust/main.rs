//! The clients that a server trusts after a change of keys, processes or authorities: the whole
//! matrix in memory, and the parts that need endpoints on loopback.

mod authority;
mod endpoints;
mod matrix;
