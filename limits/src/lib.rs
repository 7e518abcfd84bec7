//! What a peer can make an endpoint keep, and what each packet costs.
//!
//! - [`attack`]: a peer that owns the keys and fills one table after another, ten times over.
//!   `tests/sizes.rs` holds the bytes allocated against each attack's stated bound.
//! - `tables.toml` lists every field of the crates below the program that can grow, and the attack that
//!   drives it or the reason why no peer can; `tests/tables.rs` takes the list from the source.
//! - [`cost`]: single operations on an endpoint that holds many streams, connections, fragments or lost
//!   packets; `cargo xtask cost` counts their instructions.

pub mod attack;
pub mod cost;
pub mod scene;
