//! h3 over Clearway's connections, and the same over quinn's.

mod backend;
mod datagrams;
mod exchange;
mod frames;
mod quinn;
mod slow_reader;
mod support;
