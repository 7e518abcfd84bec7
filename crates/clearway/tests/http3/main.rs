//! Tests of HTTP/3 on loopback sockets.

mod cancellation;
mod early;
mod early_sessions;
mod early_settings;
mod early_support;
mod exchange;
mod extensions;
mod hot_restart;
mod in_shard;
mod malformed;
mod memory;
mod on_shards;
mod peers;
mod readiness;
mod settings;
mod shutdown;
mod slow_readers;
mod streaming;
mod support;
mod tunnel_floods;
