//! Tests of how much memory a peer can make an endpoint allocate, and of the processor time per
//! packet.
//!
//! - [`attack`]: a peer that has the keys and fills one table after another, to ten times its limit. `tests/sizes.rs`
//!   compares the allocated bytes with the bound that each attack states.
//! - `tables.toml` lists every field that can grow in the libraries that a peer drives, with the attack that fills it
//!   or the reason why no peer can. `tests/tables.rs` compares it with the source.
//! - [`cost`]: single operations on an endpoint that has many streams, connections, fragments or lost packets;
//!   `cargo xtask cost` counts their instructions.
//! - [`idle`]: connections of a server that wait for their next request; `tests/idle.rs` counts the
//!   bytes per connection.

pub mod attack;
pub mod cost;
pub mod idle;
pub mod scene;
