//! The receiving side of a packet number space (RFC 9000 §12.3, §13.2).

mod frequency;
mod received;

pub(crate) use frequency::AckPolicy;
pub(crate) use received::ReceivedPackets;
