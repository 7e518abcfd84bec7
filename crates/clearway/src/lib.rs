//! QUIC and HTTP/3 whose congestion control is shown to be live.

pub mod http3;
