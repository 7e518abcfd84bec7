//! Tests of which clients a server trusts after its keys, processes or certificate authorities
//! change. The entire matrix runs in memory, and the parts that need endpoints run on loopback.

mod authority;
mod endpoints;
mod matrix;
