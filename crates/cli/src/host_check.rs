//! Who may ask for what is served over HTTP.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::HOST;
use http::uri::Authority;

/// A router that answers only requests for an address, for "localhost", or for one of `names`, wherever it is
/// served: a page of the web whose own name is made to lead here (DNS rebinding) must not read what is served. No
/// browser asks for an address on behalf of a page of another.
pub(crate) fn guard(router: Router, names: &[String]) -> Router {
    let names: Arc<[String]> = names.into();
    router.layer(from_fn_with_state(names, refuse_other_names))
}

async fn refuse_other_names(
    State(names): State<Arc<[String]>>,
    request: Request,
    next: Next,
) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if host.is_some_and(|host| is_permitted(host, &names)) {
        return next.run(request).await;
    }
    let why = "ask for localhost, for the address, or for a name that the program was given\n";
    (StatusCode::FORBIDDEN, why).into_response()
}

fn is_permitted(host: &str, names: &[String]) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::is_permitted;

    #[test]
    fn names_of_the_web_are_refused() {
        for host in ["localhost", "LOCALHOST:4480", "127.0.0.1:80", "[::1]:4480", "192.0.2.7:80"] {
            assert!(is_permitted(host, &[]), "{host}");
        }
        for host in ["example.org", "localhost.example.org:80", "127.0.0.1.example.org", "", "a b"]
        {
            assert!(!is_permitted(host, &[]), "{host}");
        }
    }

    #[test]
    fn names_that_were_given_are_permitted() {
        let names = ["build.example.org".to_owned()];
        for host in ["build.example.org", "Build.Example.org:4480"] {
            assert!(is_permitted(host, &names), "{host}");
        }
        for host in ["example.org", "a.build.example.org", "build.example.org.", ""] {
            assert!(!is_permitted(host, &names), "{host}");
        }
    }
}
