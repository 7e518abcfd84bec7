use proptest::prelude::*;

use super::*;

fn parse(values: &[&str]) -> Vec<ProxyStatus> {
    let values: Vec<HeaderValue> =
        values.iter().map(|value| HeaderValue::from_str(value).unwrap()).collect();
    ProxyStatus::parse(&values)
}

/// Tests examples of RFC 9209 §2.
#[test]
fn examples_are_parsed_and_explained() {
    let parsed = parse(&["r34.example.net; error=http_request_error, ExampleCDN"]);
    assert_eq!(parsed.len(), 2);
    assert_eq!(parsed[0].known_error(), Some(ProxyError::HttpRequestError));
    assert_eq!((parsed[1].proxy.as_str(), &parsed[1].error), ("ExampleCDN", &None));
    for (value, message) in [
        (
            "proxy.example.net; error=\"http_protocol_error\"; details=\"Malformed response header: space before colon\"",
            "proxy proxy.example.net reported an error (http_protocol_error): Malformed response header: space before colon",
        ),
        (
            "\"proxy 1\";error=dns_error;rcode=\"NXDOMAIN\";info-code=15",
            "proxy proxy 1 could not resolve the target's name (dns_error, NXDOMAIN)",
        ),
        (
            "a; next-hop=\"b\"; received-status=?1; x=:YQ==:; error=destination_ip_prohibited",
            "proxy a does not allow the target's address (destination_ip_prohibited)",
        ),
        ("FooAccelerator", "proxy FooAccelerator reported no error (no error type)"),
    ] {
        let parsed = parse(&[value]);
        assert_eq!(parsed[0].to_string(), message);
    }
    assert_eq!(
        parse(&["a", "b; error=dns_timeout"])[1].known_error(),
        Some(ProxyError::DnsTimeout)
    );
}

#[test]
fn invalid_fields_are_ignored() {
    for value in ["a,", "a;", "a;B=1", "(a b)", "\"a", "\"\\a\"", "a; b=1.", "a b", "=", "a;b=?2"] {
        assert_eq!(parse(&[value]), [], "{value}");
    }
    assert_eq!(parse(&[]), []);
    assert_eq!(parse(&["1"]), []);
    assert_eq!(parse(&[&"a".repeat(MAX_FIELD + 1)]), []);
}

#[test]
fn each_error_has_a_token_and_a_status() {
    for error in ProxyError::ALL {
        assert_eq!(ProxyError::from_token(error.token()), Some(*error));
        let status = error.status();
        assert!(status.is_client_error() || status.is_server_error(), "{error}");
    }
    assert_eq!(ProxyError::DnsError.status(), 502);
    assert_eq!(ProxyError::from_token("none"), None);
}

#[test]
fn what_is_sent_is_escaped_and_bounded() {
    let status = ProxyStatus::error("a\"b\\c\u{e9}", ProxyError::DnsError)
        .with_rcode("SERVFAIL")
        .with_details("x".repeat(1000));
    let value = status.to_value();
    let text = value.to_str().unwrap();
    assert!(text.starts_with(r#""a\"b\\c?"; error=dns_error; rcode="SERVFAIL"; details="xxx"#));
    let parsed = parse(&[text]);
    assert_eq!(parsed[0].proxy, "a\"b\\c?");
    assert_eq!(parsed[0].details.as_ref().map(String::len), Some(MAX_DETAILS));
}

proptest! {
    #[test]
    fn what_is_sent_is_parsed(
        proxy in "[ -~]{0,50}",
        details in proptest::option::of("[ -~]{0,100}"),
        index in 0..ProxyError::ALL.len(),
    ) {
        let mut status = ProxyStatus::error(&proxy, ProxyError::ALL[index]);
        status.details = details;
        prop_assert_eq!(ProxyStatus::parse([&status.to_value()]), [status]);
    }

    #[test]
    fn anything_is_parsed_or_ignored(field in "[ -~\t]{0,80}") {
        if let Ok(value) = HeaderValue::from_str(&field) {
            for status in ProxyStatus::parse([&value]) {
                prop_assert!(!status.to_string().is_empty());
                _ = status.to_value();
            }
        }
    }
}
