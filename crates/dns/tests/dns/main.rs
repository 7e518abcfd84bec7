//! Tests of clients, servers and forwarders over loopback.

mod client;
mod early;
mod forwarder;
mod https;
mod local;
mod quic;
mod server_violations;
mod support;
