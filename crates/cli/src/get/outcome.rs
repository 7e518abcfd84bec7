//! The result of a download, for the output.

use clearway::Statistics;
use http::header::LOCATION;
use http::{Response, StatusCode};

use crate::failure::Failure;
use crate::foreign::Foreign;

/// The result of a download.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The HTTP status code; `None` for HTTP/0.9.
    pub(super) status: Option<u16>,
    pub(super) statistics: Statistics,
    /// The IANA name of the connection's key exchange group.
    pub(super) key_exchange_group: Option<&'static str>,
}

/// Fails unless the response has a success status.
pub(super) fn check_status<B>(
    url: &str,
    status: StatusCode,
    response: &Response<B>,
) -> Result<(), Failure> {
    if status.is_success() {
        return Ok(());
    }
    let failure = Failure::new(format!("{url}: the server responded with {status}"));
    let location = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
    Err(match (status, location) {
        (StatusCode::NOT_FOUND, _) => failure.advise("check the path"),
        (status, Some(place)) if status.is_redirection() => {
            failure.advise(format!("it has moved to {}", Foreign(place)))
        }
        _ => failure,
    })
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
