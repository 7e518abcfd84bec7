//! The receiving side of a packet number space (RFC 9000 §12.3, §13.2).

mod received;

pub(crate) use received::ReceivedPackets;
