//! Tunnels through an HTTP/3 proxy, on loopback sockets.

mod ip;
mod service;
mod support;
mod udp;
