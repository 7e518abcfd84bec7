//! Tests of the lab, with one module per subject.

mod ack_frequency;
mod across;
mod across_broken;
mod bbr_limited;
mod checked;
mod collapse;
mod disturb;
mod early_data;
mod findings;
mod fleet;
mod handshakes;
mod http3_streams;
mod late_packets;
mod migration;
mod priorities;
mod quinn;
mod rebinding;
mod replay;
mod shutdown;
mod support;
mod traffic;
mod two_ends;
mod violation;
