//! The receiving side of packet number spaces (RFC 9000 §12.3, §13.2).

mod frequency;
mod received;

pub(crate) use frequency::AckPolicy;
pub(crate) use received::ReceivedPackets;
