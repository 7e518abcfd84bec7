//! h3 over Clearway's connections, and the same over quinn's.

mod backend;
mod exchange;
mod quinn;
mod support;
