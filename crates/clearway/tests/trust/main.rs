//! Tests of which clients a server trusts after a change of keys, processes or authorities. The
//! whole matrix runs in memory, and the parts that need endpoints run on loopback.

mod authority;
mod endpoints;
mod matrix;
