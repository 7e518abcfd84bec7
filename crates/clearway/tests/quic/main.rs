//! QUIC streams for tasks, and applications inside the shard, on loopback sockets.

mod applications;
mod bounds;
mod connections;
mod path_mtu;
mod streams;
mod support;
