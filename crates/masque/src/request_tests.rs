use clearway_http3::Protocol;
use http::uri::Authority;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use proptest::prelude::*;

use super::*;
use crate::auth;
use crate::kind::TunnelKind;
use crate::proxy_status::{ProxyError, ProxyStatus};
use crate::target::{IpScope, Target, TargetError, Values};
use crate::template::UriTemplate;

fn template(kind: TunnelKind) -> UriTemplate {
    UriTemplate::well_known(kind, Authority::from_static("example.org"))
}

fn templates() -> [UriTemplate; 3] {
    TunnelKind::ALL.map(template)
}

fn target(text: &str) -> Values {
    Values::Target(Target::from_authority(text).unwrap())
}

fn extended(protocol: &str, uri: &str) -> Request<()> {
    let mut request = Request::connect(uri).body(()).unwrap();
    request.extensions_mut().insert(Protocol::new(protocol).unwrap());
    request
}

/// Tests the example requests of RFC 9298 §3.4 and RFC 9484 §4.5.
#[test]
fn examples_of_requests() {
    let ip = Values::Scope(IpScope::ANY);
    for (kind, values, protocol, path) in [
        (
            TunnelKind::Udp,
            target("192.0.2.6:443"),
            "connect-udp",
            "/.well-known/masque/udp/192.0.2.6/443/",
        ),
        (TunnelKind::Ip, ip, "connect-ip", "/.well-known/masque/ip/*/*/"),
        (
            TunnelKind::Tcp,
            target("192.0.2.1:443"),
            "connect-tcp",
            "/.well-known/masque/tcp/192.0.2.1/443/",
        ),
    ] {
        let request = extended_connect(&template(kind), &values).unwrap();
        assert_eq!(request.method(), Method::CONNECT);
        assert_eq!(request.extensions().get::<Protocol>().unwrap().as_str(), protocol);
        let uri = request.uri();
        assert_eq!(
            (uri.scheme_str(), uri.authority().unwrap().as_str()),
            (Some("https"), "example.org")
        );
        assert_eq!(uri.path(), path);
        assert!(has_capsule_protocol(request.headers()));
        let parsed = TunnelRequest::parse(&request, &templates());
        let expected = TunnelRequest { kind, form: Form::Extended, destination: values };
        assert_eq!(parsed, Ok(expected));
    }
}

/// Tests the requirements of RFC 9114 §4.4.
#[test]
fn section_4_4_classic_connect() {
    let request = classic_connect(&Target::from_authority("[2001:db8::1]:443").unwrap()).unwrap();
    assert_eq!(request.uri(), "[2001:db8::1]:443");
    let parsed = TunnelRequest::parse(&request, &[]).unwrap();
    assert_eq!((parsed.kind, parsed.form), (TunnelKind::Tcp, Form::Classic));
    assert_eq!(parsed.destination, target("[2001:db8::1]:443"));
    let error = TunnelRequest::parse(&Request::connect("example.org").body(()).unwrap(), &[]);
    assert_eq!(error, Err(RequestError::Target(TargetError::EmptyPort)));
    assert!(!has_capsule_protocol(accept(Form::Classic).headers()));
}

#[test]
fn each_fault_of_a_request_has_a_status() {
    let path = "https://example.org/.well-known/masque/udp/192.0.2.6/443/";
    let parse = |request: &Request<()>| TunnelRequest::parse(request, &templates());
    let get = Request::get(path).body(()).unwrap();
    let mut with_length = extended("connect-udp", path);
    with_length.headers_mut().insert("content-length", HeaderValue::from_static("1"));
    let empty_host = path.replace("192.0.2.6", "");
    for (request, error, status) in [
        (get, RequestError::NotConnect, 405),
        (extended("websocket", path), RequestError::UnknownProtocol, 501),
        (extended("connect-ip", path), RequestError::NoTemplate, 404),
        (extended("connect-tcp", "https://example.org/"), RequestError::NoTemplate, 404),
        (with_length, RequestError::ForbiddenField("content-length"), 400),
        (
            extended("connect-udp", &path.replace("https", "http")),
            RequestError::UnsupportedScheme,
            400,
        ),
        (extended("connect-udp", &empty_host), TargetError::EmptyHost.into(), 400),
    ] {
        assert_eq!(parse(&request), Err(error));
        assert_eq!(error.status().as_u16(), status);
        assert_eq!(
            error.is_malformed(),
            matches!(error, RequestError::ForbiddenField(_) | RequestError::Target(_))
        );
        assert_eq!(error.proxy_error(), ProxyError::HttpRequestError);
        assert!(!error.to_string().is_empty());
    }
    let source = std::error::Error::source(&RequestError::Target(TargetError::EmptyHost)).is_some();
    assert!(source);
    let draft = extended("connect-tcp-12", &path.replace("udp", "tcp"));
    assert_eq!(parse(&draft).unwrap().kind, TunnelKind::Tcp);
}

/// Tests the requirements of RFC 9298 §3.5 and RFC 9297 §3.2.
#[test]
fn section_3_5_responses() {
    let response = |status: u16| Response::builder().status(status).body(()).unwrap();
    for form in [Form::Classic, Form::Extended] {
        assert_eq!(check_response(form, &accept(form)), Ok(()));
        assert_eq!(check_response(form, &response(299)), Ok(()));
        for status in [101, 300, 307, 404, 500] {
            let result = check_response(form, &response(status));
            assert!(matches!(result, Err(ResponseError::Refused { .. })), "{status}");
        }
        for status in [401, 407] {
            let result = check_response(form, &response(status));
            assert!(matches!(result, Err(ResponseError::Authentication { .. })), "{status}");
        }
    }
    for status in [204, 205, 206] {
        let result = check_response(Form::Extended, &response(status));
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(result, Err(ResponseError::ForbiddenStatus { status }));
    }
    let mut typed = accept(Form::Extended);
    typed.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
    let result = check_response(Form::Extended, &typed);
    assert_eq!(result, Err(ResponseError::ForbiddenField("content-type")));
    assert_eq!(check_response(Form::Classic, &typed), Ok(()));
}

#[test]
fn a_refusal_explains_itself() {
    let reason = ProxyStatus::error("proxy.example", ProxyError::DnsError).with_rcode("NXDOMAIN");
    let response = refuse(ProxyError::DnsError.status(), &reason);
    assert!(!has_capsule_protocol(response.headers()));
    let error = check_response(Form::Extended, &response).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the proxy refused the tunnel (status 502): proxy proxy.example could not resolve the \
         target's name (dns_error, NXDOMAIN)"
    );
    let credentials = auth::Credentials::parse("basic a b\nbearer c").unwrap();
    let response = challenge(credentials.challenge(auth::Authority::Origin));
    assert_eq!(response.headers().get_all("www-authenticate").iter().count(), 2);
    let error = check_response(Form::Extended, &response).unwrap_err();
    assert!(error.to_string().contains("status 401"));
}

/// Tests the requirements of RFC 9297 §3.4.
#[test]
fn section_3_4_the_capsule_protocol_field_is_a_boolean() {
    for (values, expected) in [
        (&["?1"][..], true),
        (&[" ?1;a=1 "], true),
        (&["?0"], false),
        (&["1"], false),
        (&["?1, ?1"], false),
        (&["?1", "?1"], false),
        (&[], false),
    ] {
        let mut headers = http::HeaderMap::new();
        for value in values {
            headers.append(CAPSULE_PROTOCOL, HeaderValue::from_static(value));
        }
        assert_eq!(has_capsule_protocol(&headers), expected, "{values:?}");
    }
}

proptest! {
    #[test]
    fn any_path_is_parsed_or_refused(path in "/(\\.well-known/masque/(udp|ip|tcp)/)?[!-~]{0,60}") {
        if let Ok(uri) = http::Uri::try_from(format!("https://example.org{path}")) {
            for kind in TunnelKind::ALL {
                let request = extended(kind.upgrade_token(), &uri.to_string());
                if let Ok(parsed) = TunnelRequest::parse(&request, &templates()) {
                    let again = extended_connect(&template(kind), &parsed.destination).unwrap();
                    prop_assert_eq!(TunnelRequest::parse(&again, &templates()), Ok(parsed));
                }
            }
        }
    }
}
