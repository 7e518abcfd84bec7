//! Checks of clients: the probe is the server.

mod frames;
mod http3;
mod parameters;
mod qpack;
mod setup;
mod tls;

use super::Check;
use crate::script::Condition;

/// Returns all checks of clients.
pub fn checks() -> Vec<Check> {
    [setup::CHECKS, frames::CHECKS, parameters::CHECKS, tls::CHECKS, http3::CHECKS, qpack::CHECKS]
        .concat()
}

/// Returns the conditions that show that a client accepts what was sent: the connection continues,
/// or the client has finished and closes it without an error.
fn accepted() -> Vec<Condition> {
    vec![
        Condition::Alive {},
        Condition::application_close(&["H3_NO_ERROR", "NO_ERROR"]),
        Condition::transport_close(&["NO_ERROR"]),
    ]
}
