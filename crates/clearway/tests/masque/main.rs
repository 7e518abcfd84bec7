//! Tunnels through an HTTP/3 proxy, on loopback sockets.

mod support;
mod udp;
