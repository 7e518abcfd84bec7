use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};

use super::*;
use crate::qpack::{Decoder, Field, FieldLines, encode_static};
use crate::{Code, Priority, Protocol, SendError, StreamError};

type Pairs<'a> = &'a [(&'a str, &'a str)];

const GET: Pairs<'_> =
    &[(":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/x?y")];

fn section(kind: SectionKind, fields: Pairs<'_>) -> Result<FieldSection, StreamError> {
    let mut section = FieldSection::new(kind);
    for (name, value) in fields {
        let field = Field { name: name.as_bytes(), value: value.as_bytes(), sensitive: false };
        section.field(field)?;
    }
    Ok(section)
}

fn request(fields: Pairs<'_>) -> Result<Request<()>, StreamError> {
    section(SectionKind::Request, fields)?.into_request()
}

fn response(fields: Pairs<'_>) -> Result<Response<()>, StreamError> {
    section(SectionKind::Response, fields)?.into_response(Exchange::Other)
}

fn get_with(fields: Pairs<'_>) -> Result<Request<()>, StreamError> {
    request(&[GET, fields].concat())
}

/// Decodes a `GET` request in which one pseudo-header field is replaced by `instead`.
fn get_without(name: &str, instead: Pairs<'_>) -> Result<Request<()>, StreamError> {
    let mut fields: Vec<_> = GET.iter().copied().filter(|field| field.0 != name).collect();
    fields.extend(instead);
    request(&fields)
}

#[track_caller]
fn assert_malformed<T: std::fmt::Debug>(outcome: Result<T, StreamError>) {
    assert_eq!(outcome.expect_err("should be malformed").code, Code::MESSAGE_ERROR);
}

#[test]
fn a_request_is_understood() {
    let request = get_with(&[("accept", "*/*"), ("x", "1"), ("x", "2"), ("te", "trailers")]);
    let request = request.unwrap();
    assert_eq!(request.method(), Method::GET);
    assert_eq!(request.uri(), "https://a.example/x?y");
    assert_eq!(request.version(), http::Version::HTTP_3);
    assert_eq!(request.headers().get_all("x").iter().count(), 2);
}

/// A request must have exactly one :method, :scheme and :path (RFC 9114 §4.3.1).
#[test]
fn section_4_3_1_mandatory_pseudo_fields() {
    for name in [":method", ":scheme", ":path"] {
        assert_malformed(get_without(name, &[]));
        let again = *GET.iter().find(|field| field.0 == name).unwrap();
        assert_malformed(request(&[&[again], GET].concat()));
    }
    assert_malformed(request(&[&[(":authority", "a.example")], GET].concat()));
    assert_malformed(request(&[]));
}

/// URIs with http and https need a nonempty authority (RFC 9114 §4.3.1).
#[test]
fn section_4_3_1_authority_is_mandatory() {
    assert_malformed(get_without(":authority", &[]));
    assert_malformed(get_without(":authority", &[(":authority", "")]));
    assert_malformed(get_without(":authority", &[("host", "")]));
    assert_malformed(get_without(":authority", &[(":authority", "user@a.example")]));
    assert_malformed(get_without(":authority", &[(":authority", "a b")]));
    let request = get_without(":authority", &[("host", "b.example")]).unwrap();
    assert_eq!(request.uri(), "https://b.example/x?y");
}

/// :authority and host must be equal if both are present (RFC 9114 §4.3.1).
#[test]
fn section_4_3_1_authority_and_host_agree() {
    assert!(get_with(&[("host", "a.example")]).is_ok());
    assert_malformed(get_with(&[("host", "b.example")]));
    assert_malformed(get_with(&[("host", "a.example"), ("host", "a.example")]));
}

/// The path is absolute; only OPTIONS has "*" (RFC 9114 §4.3.1).
#[test]
fn section_4_3_1_path() {
    for path in ["", "x", "*", "/a b", "/a#b", "/\u{e9}", "?q"] {
        assert_malformed(get_without(":path", &[(":path", path)]));
    }
    let fields =
        [(":method", "OPTIONS"), (":scheme", "https"), (":authority", "a"), (":path", "*")];
    assert_eq!(request(&fields).unwrap().uri().path(), "*");
}

#[test]
fn section_4_3_1_invalid_methods_and_schemes() {
    assert_malformed(get_without(":method", &[(":method", "G T")]));
    assert_malformed(get_without(":method", &[(":method", "")]));
    assert_malformed(get_without(":scheme", &[(":scheme", "ht tp")]));
}

/// Requests are rejected if they have undefined pseudo-header fields, pseudo-header fields of
/// responses, or pseudo-header fields after regular fields (RFC 9114 §4.3).
#[test]
fn section_4_3_pseudo_fields_out_of_place() {
    assert_malformed(request(&[&[(":protocol", "x")], GET].concat()));
    assert_malformed(request(&[&[(":status", "200")], GET].concat()));
    assert_malformed(request(&[&[(":", "")], GET].concat()));
    assert_malformed(get_without(":path", &[("x", "1"), (":path", "/")]));
    assert_malformed(response(&[(":status", "200"), (":path", "/")]));
    assert_malformed(response(&[("x", "1"), (":status", "200")]));
    for name in [":status", ":path", ":x"] {
        assert_malformed(section(SectionKind::Trailers, &[(name, "200")]).map(|_| ()));
    }
}

/// A response must have exactly one valid :status (RFC 9114 §4.3.2), which must not be 101 (§4.5).
#[test]
fn section_4_3_2_status() {
    assert_eq!(response(&[(":status", "404")]).unwrap().status(), StatusCode::NOT_FOUND);
    assert_malformed(response(&[]));
    assert_malformed(response(&[(":status", "200"), (":status", "200")]));
    for status in ["", "20", "2000", "abc", "099", "+20", "101"] {
        assert_malformed(response(&[(":status", status)]));
    }
}

/// Tests the requirements of RFC 9114 §4.4.
#[test]
fn section_4_4_connect() {
    let connect = (":method", "CONNECT");
    let request_with = |fields: Pairs<'_>| request(&[&[connect], fields].concat());
    let accepted = request_with(&[(":authority", "a.example:443")]).unwrap();
    assert_eq!(accepted.uri(), "a.example:443");
    assert_malformed(request_with(&[]));
    assert_malformed(request_with(&[("host", "a.example:443")]));
    assert_malformed(request_with(&[(":authority", "a.example")]));
    assert_malformed(request_with(&[(":authority", ":443")]));
    assert_malformed(request_with(&[(":authority", "a:1"), (":path", "/")]));
    assert_malformed(request_with(&[(":authority", "a:1"), (":scheme", "https")]));
}

/// Field names must be lowercase (RFC 9114 §4.2), and names and values must have only valid
/// characters (§10.3).
#[test]
fn section_4_2_names_and_values() {
    for name in ["Accept", "a b", "a:", "", "\u{e9}", "a\0"] {
        assert_malformed(get_with(&[(name, "x")]));
    }
    for value in ["a\rb", "a\nb", "a\0b", "\u{7f}", "\u{1}", " a", "a ", "\ta", "a\t"] {
        assert_malformed(get_with(&[("x", value)]));
    }
    for value in ["", "a b", "a\tb", "\u{e9}", "~"] {
        assert!(get_with(&[("x", value)]).is_ok(), "{value:?}");
    }
    assert_malformed(section(SectionKind::Trailers, &[("X", "1")]).map(|_| ()));
}

/// Tests connection-specific fields, and the field te (RFC 9114 §4.2).
#[test]
fn section_4_2_connection_specific_fields() {
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        assert_malformed(get_with(&[(name, "x")]));
        assert_malformed(response(&[(":status", "200"), (name, "x")]));
        assert_malformed(section(SectionKind::Trailers, &[(name, "x")]).map(|_| ()));
    }
    assert!(get_with(&[("te", "trailers")]).is_ok());
    for value in ["gzip", "trailers, gzip", ""] {
        assert_malformed(get_with(&[("te", value)]));
    }
    assert_malformed(response(&[(":status", "200"), ("te", "trailers")]));
    assert_malformed(section(SectionKind::Trailers, &[("te", "trailers")]).map(|_| ()));
}

/// Tests the requirements of RFC 9114 §4.2.1.
#[test]
fn section_4_2_1_cookies_are_joined() {
    let request = get_with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")]).unwrap();
    let cookies: Vec<_> = request.headers().get_all("cookie").iter().collect();
    assert_eq!(cookies, ["a=1; b=2"]);
}

/// Content-length is a number and appears once (RFC 9110 §8.6).
#[test]
fn content_length_is_one_number() {
    for value in ["", "-1", "+1", "1, 1", "0x1", "1 2", "99999999999999999999999"] {
        assert_malformed(get_with(&[("content-length", value)]));
    }
    assert_malformed(get_with(&[("content-length", "1"), ("content-length", "1")]));
    let fields = section(SectionKind::Request, &[("content-length", "0017")]).unwrap();
    assert_eq!(fields.content_length(), Some(17));
}

#[test]
fn content_is_counted_against_its_rule() {
    let mut content = Content::new(ContentRule::Length(Some(3)));
    assert!(content.admits(3) && !content.admits(4) && !content.admits(u64::MAX));
    content.add(2);
    assert!(!content.is_complete());
    content.add(1);
    assert!(content.is_complete() && !content.admits(1));
    assert!(!Content::new(ContentRule::None).admits(1));
    assert!(Content::new(ContentRule::Length(None)).admits(u64::MAX));
    assert!(Content::new(ContentRule::Tunnel).is_complete());
}

fn fields_of(lines: FieldLines) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let section = encode_static(&lines);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let receive = |field: Field<'_>| {
        fields.push((text(field.name), text(field.value)));
        Ok::<_, ()>(())
    };
    Decoder::default().decode(0, &section, 1 << 16, receive).unwrap();
    fields
}

fn sent(request: http::request::Builder) -> Result<Vec<(String, String)>, SendError> {
    let mut lines = FieldLines::default();
    encode_request(&mut lines, &request.body(()).unwrap())?;
    Ok(fields_of(lines))
}

#[test]
fn a_sent_request_has_its_pseudo_fields_first() {
    let fields = sent(Request::get("https://a.example?q").header("accept", "*/*")).unwrap();
    let expected = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example"),
        (":path", "/?q"),
        ("accept", "*/*"),
    ];
    assert_eq!(fields, expected.map(|(name, value)| (name.into(), value.into())));
    // The field host is sent as :authority.
    let fields = sent(Request::get("/x").header("host", "b.example")).unwrap();
    assert_eq!(fields[2], (":authority".into(), "b.example".into()));
    assert_eq!(fields.len(), 4);
    let fields = sent(Request::builder().method("CONNECT").uri("a.example:443")).unwrap();
    assert_eq!(fields.len(), 2);
}

/// Tests messages that an endpoint must not generate (RFC 9114 §4.2, §4.3).
#[test]
fn malformed_messages_are_not_sent() {
    let get = || Request::get("https://a.example/");
    assert!(sent(get()).is_ok());
    for (name, value) in [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("te", "gzip"),
        ("host", "b.example"),
        ("x", " a"),
    ] {
        let outcome = sent(get().header(name, value));
        assert!(matches!(outcome, Err(SendError::Malformed { .. })), "{name}");
    }
    assert!(sent(Request::get("/no-authority")).is_err());
    assert!(sent(Request::get("https://user@a.example/")).is_err());
    assert!(sent(Request::builder().method("CONNECT").uri("https://a.example/")).is_err());
    let switching = Response::builder().status(101).body(()).unwrap();
    assert!(encode_response(&mut FieldLines::default(), Exchange::Other, &switching).is_err());
}

/// Returns the fields of a response with these fields.
fn responded(exchange: Exchange, status: u16, fields: Pairs<'_>) -> Vec<(String, String)> {
    let mut response = Response::builder().status(status);
    for (name, value) in fields {
        response = response.header(*name, *value);
    }
    let mut lines = FieldLines::default();
    encode_response(&mut lines, exchange, &response.body(()).unwrap()).unwrap();
    fields_of(lines).split_off(1)
}

#[test]
fn section_8_6_responses_without_content_length() {
    let has_length =
        |exchange, status| !responded(exchange, status, &[("content-length", "0")]).is_empty();
    for status in [103, 204] {
        assert!(!has_length(Exchange::Other, status), "{status}");
        assert!(!has_length(Exchange::Head, status), "{status}");
    }
    for (exchange, status) in [
        (Exchange::Other, 200),
        (Exchange::Other, 304),
        (Exchange::Head, 200),
        (Exchange::Connect, 403),
    ] {
        assert!(has_length(exchange, status), "{status}");
    }
    for exchange in [Exchange::Connect, Exchange::ExtendedConnect] {
        assert!(!has_length(exchange, 200));
    }
}

#[test]
fn responses_and_trailers_are_corrected() {
    let fields = [("x", " a b\t"), ("connection", "y"), ("y", "1"), ("te", "trailers"), ("z", " ")];
    let expected = [("x", "a b"), ("z", "")].map(|(name, value)| (name.into(), value.into()));
    assert_eq!(responded(Exchange::Other, 200, &fields), expected);
    let fields = fields.map(|(name, value)| {
        (name.parse::<http::HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    });
    let mut lines = FieldLines::default();
    encode_trailers(&mut lines, &HeaderMap::from_iter(fields)).unwrap();
    assert_eq!(fields_of(lines), expected);
}

#[test]
fn sensitive_values_stay_sensitive() {
    let mut value = HeaderValue::from_static("secret");
    value.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert("authorization", value);
    let mut lines = FieldLines::default();
    encode_trailers(&mut lines, &headers).unwrap();
    let encoded = encode_static(&lines);
    let mut received = FieldSection::new(SectionKind::Trailers);
    Decoder::default().decode(0, &encoded, 1000, |field| received.field(field)).unwrap();
    assert!(received.into_trailers()["authorization"].is_sensitive());
    // One sensitive part makes the joined cookie sensitive.
    let mut received = section(SectionKind::Request, GET).unwrap();
    for sensitive in [false, true, false] {
        received.field(Field { name: b"cookie", value: b"a=1", sensitive }).unwrap();
    }
    assert!(received.into_request().unwrap().headers()["cookie"].is_sensitive());
}

#[test]
fn what_is_sent_is_received() {
    for uri in ["https://a.example/x?y=z", "http://a.example:8080/", "https://[::1]:4433/%20"] {
        let request = Request::post(uri).header("x", "\u{e9}").body(()).unwrap();
        let mut lines = FieldLines::default();
        encode_request(&mut lines, &request).unwrap();
        let section = encode_static(&lines);
        let mut received = FieldSection::new(SectionKind::Request);
        Decoder::default().decode(0, &section, 1000, |field| received.field(field)).unwrap();
        let received = received.into_request().unwrap();
        assert_eq!(received.uri(), &uri.parse::<Uri>().unwrap());
        assert_eq!(received.headers(), request.headers());
    }
}

const EXTENDED: Pairs<'_> = &[
    (":method", "CONNECT"),
    (":protocol", "connect-udp"),
    (":scheme", "https"),
    (":authority", "a.example"),
    (":path", "/.well-known/masque/udp/192.0.2.6/443/"),
];

/// Tests the pseudo-header fields of extended CONNECT (RFC 9220 §3, RFC 8441 §4).
#[test]
fn extended_connect_is_understood() {
    let received = request(EXTENDED).unwrap();
    assert_eq!(received.method(), Method::CONNECT);
    assert_eq!(received.uri(), "https://a.example/.well-known/masque/udp/192.0.2.6/443/");
    assert_eq!(received.extensions().get::<Protocol>().unwrap().as_str(), "connect-udp");
    assert_eq!(Exchange::new(&received), Exchange::ExtendedConnect);
    for name in [":scheme", ":authority", ":path", ":method"] {
        let fields: Vec<_> = EXTENDED.iter().copied().filter(|field| field.0 != name).collect();
        assert_malformed(request(&fields));
    }
    // The request is malformed if it has `host` instead of :authority.
    let host = [&EXTENDED[..3], &EXTENDED[4..], &[("host", "a.example")]].concat();
    assert_malformed(request(&host));
    assert_malformed(get_with(&[]).and_then(|_| request(&[GET, &EXTENDED[1..2]].concat())));
    assert_malformed(request(&[EXTENDED, &EXTENDED[1..2]].concat()));
    for protocol in ["", "a b", "a/b/c", "/", "\u{e9}"] {
        let fields = [&EXTENDED[..1], &[(":protocol", protocol)], &EXTENDED[2..]].concat();
        assert_malformed(request(&fields));
    }
    assert_malformed(response(&[(":status", "200"), (":protocol", "x")]));
}

#[test]
fn extended_connect_is_sent() {
    let request = || {
        Request::builder()
            .method("CONNECT")
            .uri("https://a.example/chat")
            .extension(Protocol::new("websocket").unwrap())
    };
    let fields = sent(request()).unwrap();
    for (name, value) in [(":protocol", "websocket"), (":scheme", "https"), (":path", "/chat")] {
        assert!(fields.contains(&(name.into(), value.into())), "{name}");
    }
    assert!(sent(request().method("GET")).is_err());
    assert!(sent(request().header("capsule-protocol", "?1")).is_ok());
    assert!(sent(request().header("capsule-protocol", "?1").header("content-type", "x")).is_err());
    assert_eq!(Protocol::new("HTTP/2.0").unwrap().to_string(), "HTTP/2.0");
    assert_eq!(Protocol::new("a b"), None);
}

/// Tests fields that a message with capsules must not have (RFC 9297 §3.2).
#[test]
fn section_3_2_messages_with_capsules() {
    let capsules = ("capsule-protocol", "?1");
    let with = |fields: Pairs<'_>| request(&[EXTENDED, fields].concat());
    assert!(with(&[capsules]).is_ok());
    assert_malformed(with(&[capsules, ("content-length", "3")]));
    assert_malformed(with(&[("content-type", "text/plain"), capsules]));
    for other in ["?0", "1", "?1, ?1", "?1x"] {
        assert!(with(&[("capsule-protocol", other), ("content-length", "3")]).is_ok(), "{other}");
    }
    let answer = |exchange: Exchange, fields: Pairs<'_>| {
        section(SectionKind::Response, fields).unwrap().into_response(exchange)
    };
    for (status, is_ok) in
        [("200", true), ("204", false), ("205", false), ("206", false), ("404", true)]
    {
        let fields = [(":status", status), capsules];
        assert_eq!(answer(Exchange::ExtendedConnect, &fields).is_ok(), is_ok, "{status}");
        assert!(answer(Exchange::Other, &fields).is_ok());
    }
    let fields = [(":status", "200"), capsules, ("content-length", "0")];
    assert_malformed(answer(Exchange::ExtendedConnect, &fields));
}

/// The priority field and the extension are equivalent (RFC 9218 §5).
#[test]
fn priorities_are_fields() {
    let received = get_with(&[("priority", "u=1, i")]).unwrap();
    assert_eq!(received.extensions().get(), Some(&Priority::new(1, true)));
    assert_eq!(get_with(&[("priority", "u=1,")]).unwrap().extensions().get::<Priority>(), None);
    let get = || Request::get("https://a.example/").extension(Priority::new(6, false));
    assert!(sent(get()).unwrap().contains(&("priority".into(), "u=6".into())));
    let both = sent(get().header("priority", "u=2")).unwrap();
    assert_eq!(both.iter().filter(|(name, _)| name == "priority").count(), 1);
    assert!(both.contains(&("priority".into(), "u=2".into())));
}
