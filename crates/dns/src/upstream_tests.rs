use super::*;

fn parse(text: &str) -> Result<String, UpstreamError> {
    text.parse::<Upstream>().map(|upstream| upstream.to_string())
}

#[test]
fn urls_have_defaults() {
    for (text, expected) in [
        ("quic://dns.example", "quic://dns.example"),
        ("quic://dns.example:853/", "quic://dns.example"),
        ("quic://192.0.2.1:8853#dns.example", "quic://192.0.2.1:8853#dns.example"),
        ("quic://[2001:db8::1]", "quic://[2001:db8::1]"),
        ("https://dns.example", "https://dns.example/dns-query"),
        ("h3://dns.example/resolve", "https://dns.example/resolve"),
        ("https://dns.example/dns-query{?dns}", "https://dns.example/dns-query"),
        ("https://[2001:db8::1]:8443/", "https://[2001:db8::1]:8443/dns-query"),
        ("tls://192.0.2.1#dns.example", "tls://192.0.2.1#dns.example"),
        ("udp://192.0.2.1", "udp://192.0.2.1"),
        ("tcp://192.0.2.1:5353", "tcp://192.0.2.1:5353"),
    ] {
        assert_eq!(parse(text).as_deref(), Ok(expected));
        assert_eq!(parse(expected).as_deref(), Ok(expected));
    }
}

#[test]
fn certificates_and_requests_have_the_name_of_the_fragment() {
    let upstream: Upstream = "https://192.0.2.1:8443#dns.example".parse().unwrap();
    assert_eq!(upstream.server_name(), "dns.example");
    assert_eq!(upstream.authority(), "dns.example:8443");
    let upstream: Upstream = "https://[2001:db8::1]".parse().unwrap();
    assert_eq!(upstream.server_name(), "2001:db8::1");
    assert_eq!(upstream.authority(), "[2001:db8::1]");
}

#[test]
fn errors_name_the_part_that_is_wrong() {
    for (text, expected) in [
        ("", "it is not a URL"),
        ("192.0.2.1", "it is not a URL"),
        ("dns.example:53", "it is not a URL"),
        ("sdns://dns.example", "\"sdns\" is not an upstream protocol"),
        ("quic://", "no host"),
        ("quic://dns.example/dns-query", "a path has no meaning"),
        ("tls://user@dns.example", "a user name has no meaning"),
        ("https://dns.example/?a=b", "a query has no meaning"),
        ("udp://192.0.2.1#dns.example", "a certificate name has no meaning"),
        ("quic://dns.example:53", "must not use port 53"),
        ("quic://192.0.2.1#a..b", "no certificate can be valid"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[tokio::test]
async fn addresses_need_no_resolver() {
    for (text, expected) in
        [("udp://192.0.2.1", "192.0.2.1:53"), ("quic://[2001:db8::1]", "[2001:db8::1]:853")]
    {
        let upstream: Upstream = text.parse().unwrap();
        assert_eq!(upstream.resolve().await.unwrap(), [expected.parse().unwrap()]);
    }
}
