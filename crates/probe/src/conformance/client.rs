//! Checks against clients: the probe is the server.

use super::Check;

/// Returns all checks against clients.
pub fn checks() -> Vec<Check> {
    Vec::new()
}
