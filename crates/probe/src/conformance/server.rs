//! Checks of servers.

mod flow;
mod http3_control;
mod http3_frames;
mod http3_messages;
mod ids;
mod levels;
mod packets;
mod parameters;
mod paths;
mod qpack;
mod streams;
mod tls;

use super::Check;

/// Returns all checks of servers.
pub fn checks() -> Vec<Check> {
    [
        packets::CHECKS,
        levels::CHECKS,
        flow::CHECKS,
        streams::CHECKS,
        ids::CHECKS,
        paths::CHECKS,
        parameters::CHECKS,
        tls::CHECKS,
        http3_control::CHECKS,
        http3_frames::CHECKS,
        http3_messages::CHECKS,
        qpack::CHECKS,
    ]
    .concat()
}
