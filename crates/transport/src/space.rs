//! One packet number space as its receiver sees it (RFC 9000 §12.3, §13.2).

mod received;

pub(crate) use received::ReceivedPackets;
