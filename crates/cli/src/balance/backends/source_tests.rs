use super::super::Backends;
use super::*;

const CONFIG: &str = "[[config]]\nid = 0\nserver-id-length = 4\nnonce-length = 12\n";

fn parse(source: &str) -> Result<Source, String> {
    let text = format!("{CONFIG}[[source]]\n{source}");
    let backends = Backends::parse(&text);
    let backends = backends.map_err(|fault| fault.in_file("f".as_ref(), &text).to_string())?;
    Ok(backends.sources.into_iter().next().unwrap())
}

fn entry(name: &str, address: &str, server_id: Option<&str>) -> Entry {
    Entry {
        name: name.to_owned(),
        address: address.parse().unwrap(),
        server_id: server_id.map(str::to_owned),
        weight: 7,
        is_draining: true,
        place: "there".to_owned(),
    }
}

#[test]
fn the_kinds_of_sources() {
    let source =
        parse("dns = \"_quic._udp.example\"\nserver-id = \"stated\"\npreface = false").unwrap();
    let (name, port, resolver) = ("_quic._udp.example".to_owned(), None, None);
    assert_eq!(source.origin, Origin::Dns(Dns { name, port, resolver }));
    assert!(!source.has_preface);
    let source =
        parse("dns = \"web.example:443\"\nresolver = \"127.0.0.1:53\"\nserver-id = \"none\"\nid-length = 8").unwrap();
    let (port, resolver) = (Some(443), Some(([127, 0, 0, 1], 53).into()));
    assert_eq!(source.origin, Origin::Dns(Dns { name: "web.example".to_owned(), port, resolver }));
    assert_eq!(source.id_len, Some(8));
    let source = parse(
        "etcd = [\"https://a:2379\", \"https://b:2379\"]\nprefix = \"web/\"\nca = \"ca.pem\"\ncert = \"c\"\nkey = \"k\"\n\
         server-id = \"stated\"",
    );
    let Origin::Etcd(etcd) = source.unwrap().origin else { panic!() };
    assert_eq!((etcd.members.len(), &etcd.prefix[..]), (2, "web/"));
    assert_eq!(etcd.trust.identity, Some(("c".into(), "k".into())));
    let source = parse(
        "kubernetes = \"default/web\"\nport = \"quic\"\nserver-id = { web-0 = \"01020304\" }",
    )
    .unwrap();
    assert_eq!(source.origin.to_string(), "Kubernetes default/web");
}

#[test]
fn where_server_ids_are_from() {
    let configs =
        Backends::parse(&format!("{CONFIG}[[source]]\ndns = \"a:1\"\nserver-id = \"none\""))
            .unwrap()
            .configs;
    let id = |source: &str, entry: &Entry| {
        let server = parse(source).unwrap().server(entry, &configs)?;
        assert_eq!((server.weight, server.state), (7, ServerState::Draining));
        Ok::<_, String>(server.ids.first().map(|(_, id)| id.to_string()))
    };
    let (stated, address) =
        ("dns = \"a\"\nserver-id = \"stated\"", "dns = \"a:1\"\nserver-id = \"address\"");
    let each = "dns = \"a\"\nserver-id = { web = \"0a0b0c0d\" }";
    let v4 = entry("web", "192.0.2.1:443", Some("01020304"));
    assert_eq!(id(stated, &v4).unwrap().unwrap(), "01020304");
    assert_eq!(id(address, &v4).unwrap().unwrap(), "c0000201");
    assert_eq!(id(each, &v4).unwrap().unwrap(), "0a0b0c0d");
    assert_eq!(id("dns = \"a:1\"\nserver-id = \"none\"", &v4).unwrap(), None);
    let other = entry("other", "[2001:db8::1]:443", None);
    assert!(id(stated, &other).unwrap_err().contains("the entry has no server ID"));
    assert!(id(address, &other).unwrap_err().contains("server-id-length = 8, or 10"));
    assert!(id(each, &other).unwrap_err().contains("no server ID for \"other\""));
    let wrong = entry("web", "192.0.2.1:443", Some("xyz"));
    assert!(id(stated, &wrong).unwrap_err().contains("\"xyz\" is not a server ID"));
}

#[test]
fn the_server_id_of_an_address() {
    let id = |address: &str, length| {
        id_of_address(address.parse().unwrap(), length).map(|id| id.to_string())
    };
    assert_eq!(id("192.0.2.1:443", 6).unwrap(), "c000020101bb");
    assert_eq!(id("[2001:db8::a:b]:443", 8).unwrap(), "00000000000a000b");
    assert_eq!(id("[2001:db8::a:b]:443", 10).unwrap(), "00000000000a000b01bb");
    assert!(id("192.0.2.1:443", 8).is_err());
}

#[test]
fn faults_are_shown_at_their_places() {
    for (source, expected) in [
        (
            "preface = true",
            "f:5:1: a source needs exactly one of the keys dns, etcd and kubernetes",
        ),
        (
            "dns = \"a:1\"\nkubernetes = \"b/c\"",
            "f:5:1: a source needs exactly one of the keys dns, etcd and kubernetes",
        ),
        ("dns = \"a b\"\nserver-id = \"none\"", "f:6:7: \"a b\" is not a DNS name"),
        ("dns = \"a:0\"\nserver-id = \"none\"", "f:6:7: \"a:0\" is not a DNS name"),
        (
            "dns = \"a:1\"\nresolver = \"b\"\nserver-id = \"none\"",
            "f:7:12: \"b\" is not a name server address",
        ),
        (
            "dns = \"a:1\"\nprefix = \"b\"\nserver-id = \"none\"",
            "f:7:10: this key does not apply to the source DNS a:1",
        ),
        ("dns = \"a:1\"", "f:5:1: the source of server IDs is missing"),
        ("dns = \"a:1\"\nserver-id = \"stated\"", "f:7:13: DNS a:1 does not provide server IDs"),
        ("dns = \"a:1\"\nserver-id = \"0102\"", "f:7:13: \"0102\" is not a source of server IDs"),
        (
            "dns = \"a:1\"\nserver-id = \"address\"\nid-length = 8",
            "f:8:13: id-length is only for servers without",
        ),
        ("etcd = []\nserver-id = \"none\"", "f:6:8: the list of etcd members is empty"),
        ("etcd = [\"https://a\"]\nserver-id = \"none\"", "f:6:8: etcd sources need prefix"),
        (
            "etcd = [\"ftp://a\"]\nprefix = \"b\"\nserver-id = \"none\"",
            "f:6:9: \"ftp://a\" is not a server URL",
        ),
        (
            "etcd = [\"https://a\"]\nprefix = \"b\"\ncert = \"c\"\nserver-id = \"none\"",
            "f:8:8: cert and key must be used together",
        ),
        (
            "kubernetes = \"web\"\nserver-id = \"none\"",
            "f:6:14: \"web\" is not a Kubernetes service",
        ),
    ] {
        let fault = parse(source).unwrap_err();
        assert!(fault.starts_with(expected), "{fault}");
    }
}

/// A DNS name has at most 253 octets, and each of its labels 1 to 63.
#[test]
fn names_within_and_beyond_their_limits() {
    let labels = |last: usize| {
        let label = "a".repeat(63);
        format!("{label}.{label}.{label}.{}", "a".repeat(last))
    };
    let is_name = |name: &str| parse(&format!("dns = \"{name}:1\"\nserver-id = \"none\"")).is_ok();
    assert_eq!(labels(61).len(), 253);
    for name in [labels(61), labels(60) + ".", "a".repeat(63), "_a-0.b".to_owned(), "a.".to_owned()]
    {
        assert!(is_name(&name), "{name}");
    }
    for name in [labels(62), "a".repeat(64), "a..b".to_owned(), "..".to_owned()] {
        assert!(!is_name(&name), "{name}");
    }
    let is_service = |service: &str| {
        parse(&format!("kubernetes = \"{service}\"\nserver-id = \"address\"")).is_ok()
    };
    let long = "a".repeat(63);
    for service in ["a/b", "a-1/2-b", &format!("{long}/{long}")] {
        assert!(is_service(service), "{service}");
    }
    for service in ["/b", "a/", "a/b/c", "A/b", "a/b_c", "a.b/c", &format!("{long}a/b")] {
        assert!(!is_service(service), "{service}");
    }
}

/// The names of servers from sources have 1 to 259 octets, all printable.
#[test]
fn names_of_servers_from_sources() {
    for (name, part) in [
        ("a".to_owned(), None),
        ("it's \"a\" name".to_owned(), None),
        ("x".repeat(259), None),
        ("x".repeat(260), Some("has 260 octets, but must have 1 to 259")),
        (String::new(), Some("has 0 octets")),
        ("a\n".to_owned(), Some("unprintable")),
    ] {
        let fault = entry(&name, "192.0.2.1:443", None).fault();
        assert_eq!(fault.is_some(), part.is_some(), "{name}");
        assert!(part.is_none_or(|part| fault.is_some_and(|it| it.contains(part))), "{name}");
    }
}
