//! Tests of how much memory a peer can make an endpoint allocate, and of the CPU time per packet.
//!
//! - [`attack`]: a peer that has the keys and fills one table after another, up to ten times the
//!   limit. `tests/sizes.rs` compares the number of allocated bytes with the bound that each attack
//!   states.
//! - `tables.toml` lists every field that can grow in the libraries that a peer drives, with the
//!   attack that fills it or the reason why no peer can. `tests/tables.rs` compares the list with
//!   the source code.
//! - [`cost`]: single operations on an endpoint that has many streams, connections, fragments or lost packets;
//!   `cargo xtask cost` counts their instructions.
//! - [`idle`]: a server's connections that wait for their next request; `tests/idle.rs` measures
//!   the bytes per connection.

pub mod attack;
pub mod cost;
pub mod idle;
pub mod scene;
