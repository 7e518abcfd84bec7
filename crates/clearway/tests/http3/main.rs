//! HTTP/3 on loopback sockets.

mod cancellation;
mod exchange;
mod extensions;
mod in_shard;
mod malformed;
mod shutdown;
mod slow_readers;
mod streaming;
mod support;
