//! h3 over Clearway's connections, and the same over quinn's.

mod backend;
mod connection;
mod datagrams;
mod differences;
mod exchange;
mod frames;
mod quinn;
mod raw;
mod request;
mod sequences;
mod slow_reader;
mod support;
