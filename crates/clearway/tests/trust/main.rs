//! Tests of which clients a server trusts after a change of keys, processes or authorities. The
//! entire matrix runs in memory, and the parts that need endpoints run on loopback.

mod authority;
mod endpoints;
mod matrix;
