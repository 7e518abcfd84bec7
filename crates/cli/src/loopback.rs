//! What is served to this machine alone.

use std::net::{IpAddr, SocketAddr};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::HOST;
use http::uri::Authority;

/// A router that, if it is served at a loopback address, answers only requests for an address or for
/// "localhost": a page of the web whose name leads to this machine must not read what is served here.
pub(crate) fn guard(router: Router, address: SocketAddr) -> Router {
    if address.ip().is_loopback() { router.layer(from_fn(refuse_names)) } else { router }
}

async fn refuse_names(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(is_this_machine) {
        return next.run(request).await;
    }
    (StatusCode::FORBIDDEN, "ask for localhost, or for the address\n").into_response()
}

fn is_this_machine(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests;
