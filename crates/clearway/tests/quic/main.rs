//! QUIC streams for tasks, and applications inside the shard, on loopback sockets.

mod applications;
mod bounds;
mod certificates;
mod connections;
mod crash;
mod datagrams;
mod happy_eyeballs;
mod memory_budget;
mod migration;
mod path_mtu;
mod qlog;
mod quic_lb;
mod reconfiguring;
mod shards;
mod sockets;
mod streams;
mod support;
mod tasks;
mod tokens;
