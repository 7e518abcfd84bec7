use super::*;

#[test]
fn only_a_success_is_one() {
    let of = |status: u16, location: Option<&str>| {
        let status = StatusCode::from_u16(status).unwrap();
        let mut response = Response::new(());
        if let Some(location) = location {
            response.headers_mut().insert(LOCATION, location.parse().unwrap());
        }
        check_status("URL", status, &response).map_err(|failure| failure.to_string())
    };
    for status in [200, 201, 204, 206, 299] {
        assert_eq!(of(status, Some("/b")), Ok(()), "{status}");
    }
    for (status, location, expected) in [
        (304, None, "URL: the server responded with 304 Not Modified"),
        (404, None, "URL: the server responded with 404 Not Found; check the path"),
        (404, Some("/b"), "URL: the server responded with 404 Not Found; check the path"),
        (
            301,
            Some("/b"),
            "URL: the server responded with 301 Moved Permanently; it has moved to /b",
        ),
        (503, Some("/b"), "URL: the server responded with 503 Service Unavailable"),
    ] {
        assert_eq!(of(status, location), Err(expected.to_owned()));
    }
}
