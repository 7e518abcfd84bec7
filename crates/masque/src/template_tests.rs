use std::str::FromStr;

use proptest::prelude::*;

use super::*;
use crate::target::{Host, Name};

fn parse(kind: TunnelKind, text: &str) -> Result<UriTemplate, TemplateError> {
    UriTemplate::parse_for_server(kind, text)
}

fn target(text: &str) -> Values {
    Values::Target(Target::from_authority(text).unwrap())
}

fn scope(target: &str, protocol: Option<u8>) -> Values {
    Values::Scope(IpScope { target: ScopeTarget::parse(target).unwrap(), protocol })
}

/// Tests the examples of RFC 9298 §2.
#[test]
fn examples_of_connect_udp() {
    let well_known = "https://example.org/.well-known/masque/udp/{target_host}/{target_port}/";
    for (template, v4, v6) in [
        (
            well_known,
            "https://example.org/.well-known/masque/udp/192.0.2.6/443/",
            "https://example.org/.well-known/masque/udp/2001%3Adb8%3A%3A42/443/",
        ),
        (
            "https://proxy.example.org:4443/masque?h={target_host}&p={target_port}",
            "https://proxy.example.org:4443/masque?h=192.0.2.6&p=443",
            "https://proxy.example.org:4443/masque?h=2001%3Adb8%3A%3A42&p=443",
        ),
        (
            "https://proxy.example.org:4443/masque{?target_host,target_port}",
            "https://proxy.example.org:4443/masque?target_host=192.0.2.6&target_port=443",
            "https://proxy.example.org:4443/masque?target_host=2001%3Adb8%3A%3A42&target_port=443",
        ),
    ] {
        let parsed = parse(TunnelKind::Udp, template).unwrap();
        assert_eq!(parsed.to_string(), template);
        for (values, uri) in [("192.0.2.6:443", v4), ("[2001:db8::42]:443", v6)] {
            let values = target(values);
            let expanded = parsed.expand(&values).unwrap();
            assert_eq!(expanded.to_string(), uri);
            let path = expanded.path_and_query().unwrap().as_str();
            assert_eq!(parsed.matches(path), Some(Ok(values)));
        }
    }
    let default = UriTemplate::well_known(TunnelKind::Udp, Authority::from_static("example.org"));
    assert_eq!(default, parse(TunnelKind::Udp, well_known).unwrap());
}

/// Tests the examples of RFC 9484 §3.
#[test]
fn examples_of_connect_ip() {
    for (template, any, scoped) in [
        (
            "https://example.org/.well-known/masque/ip/{target}/{ipproto}/",
            "/.well-known/masque/ip/*/*/",
            "/.well-known/masque/ip/2001%3Adb8%3A%3A%2F32/17/",
        ),
        (
            "https://proxy.example.org:4443/masque/ip?t={target}&i={ipproto}",
            "/masque/ip?t=*&i=*",
            "/masque/ip?t=2001%3Adb8%3A%3A%2F32&i=17",
        ),
        (
            "https://proxy.example.org:4443/masque/ip{?target,ipproto}",
            "/masque/ip?target=*&ipproto=*",
            "/masque/ip?target=2001%3Adb8%3A%3A%2F32&ipproto=17",
        ),
    ] {
        let parsed = parse(TunnelKind::Ip, template).unwrap();
        for (values, path) in [(scope("*", None), any), (scope("2001:db8::/32", Some(17)), scoped)]
        {
            let uri = parsed.expand(&values).unwrap();
            assert_eq!(uri.path_and_query().unwrap(), path);
            assert_eq!(parsed.matches(path), Some(Ok(values)));
        }
    }
    let parsed = parse(TunnelKind::Ip, "https://masque.example.org/?user=bob").unwrap();
    let any = Values::Scope(IpScope::ANY);
    assert_eq!(parsed.expand(&any).unwrap(), "https://masque.example.org/?user=bob");
    assert_eq!(parsed.matches("/?user=bob"), Some(Ok(any)));
    assert_eq!(parsed.matches("/?user=eve"), None);
    let narrow = parsed.expand(&scope("192.0.2.1", None));
    assert_eq!(narrow, Err(ExpandError::NoVariable("target")));
    let narrow = parsed.expand(&scope("*", Some(6)));
    assert_eq!(narrow, Err(ExpandError::NoVariable("ipproto")));
    assert_eq!(parsed.expand(&target("a:1")), Err(ExpandError::WrongKind));
}

/// Tests the example of draft-ietf-httpbis-connect-tcp §3.2.
#[test]
fn example_of_connect_tcp() {
    let text = "https://request-proxy.example/proxy{?target_host,target_port}";
    let template = parse(TunnelKind::Tcp, text).unwrap();
    let uri = template.expand(&target("[2001:db8::1]:443")).unwrap();
    let path = "/proxy?target_host=2001%3Adb8%3A%3A1&target_port=443";
    assert_eq!(uri.path_and_query().unwrap(), path);
    for kind in TunnelKind::ALL {
        let authority = Authority::from_str("[2001:db8::1]:4433").unwrap();
        let default = UriTemplate::well_known(kind, authority);
        assert_eq!(parse(kind, &default.to_string()), Ok(default));
        assert_eq!(TunnelKind::from_upgrade_token(kind.upgrade_token()), Some(kind));
    }
}

/// Tests the requirements of RFC 9298 §2.
#[test]
fn section_2_each_requirement_has_an_error() {
    let variables = "{target_host}/{target_port}/";
    for (text, error) in [
        ("https://a/ü/{target_host}/{target_port}", TemplateError::InvalidCharacter('ü')),
        ("https://a/ /{target_host}/{target_port}", TemplateError::InvalidCharacter(' ')),
        ("/masque/{target_host}/{target_port}", TemplateError::NotAbsolute),
        ("http://a/{target_host}/{target_port}", TemplateError::UnsupportedScheme),
        ("://a/{target_host}/{target_port}", TemplateError::UnsupportedScheme),
        ("{s}://a/{target_host}/{target_port}", TemplateError::VariableOutsidePath),
        ("https://{target_host}/{target_port}", TemplateError::VariableOutsidePath),
        ("https://a:{target_port}/{target_host}", TemplateError::VariableOutsidePath),
        ("https:///{target_host}/{target_port}", TemplateError::InvalidAuthority),
        ("https://u@a/{target_host}/{target_port}", TemplateError::InvalidAuthority),
        ("https://a:99999/{target_host}/{target_port}", TemplateError::InvalidAuthority),
        ("https://a?{target_host}&{target_port}", TemplateError::MissingPath),
        ("https://a{?target_host,target_port}", TemplateError::MissingPath),
        ("https://a", TemplateError::MissingPath),
        ("https://a/{target_host}/{target_port}#x", TemplateError::Fragment),
        ("https://a/{target_host}/{target_port", TemplateError::UnbalancedBrace),
        ("https://a/target_host}/{target_port}", TemplateError::UnbalancedBrace),
        ("https://a/{target_host}/{{target_port}}", TemplateError::InvalidVariable),
        ("https://a/{}/{target_host}/{target_port}", TemplateError::InvalidVariable),
        ("https://a/{target_host,}/{target_port}", TemplateError::InvalidVariable),
        ("https://a/{+target_host}/{target_port}", TemplateError::ForbiddenOperator('+')),
        ("https://a/{target_host}/{target_port}{#x}", TemplateError::ForbiddenOperator('#')),
        ("https://a/{.target_host}/{target_port}", TemplateError::ForbiddenOperator('.')),
        ("https://a{/target_host}/{target_port}", TemplateError::VariableOutsidePath),
        ("https://a/b{/target_host,target_port}", TemplateError::ForbiddenOperator('/')),
        ("https://a/b{;target_host,target_port}", TemplateError::ForbiddenOperator(';')),
        ("https://a/b{|target_host,target_port}", TemplateError::ForbiddenOperator('|')),
        ("https://a/b{&target_host,target_port}", TemplateError::MisplacedOperator('&')),
        ("https://a/b?c{?target_host,target_port}", TemplateError::MisplacedOperator('?')),
        ("https://a/{target_host:3}/{target_port}", TemplateError::Modifier(':')),
        ("https://a/{target_host*}/{target_port}", TemplateError::Modifier('*')),
        ("https://a/{target_host}/{target_host}", TemplateError::DuplicateVariable),
        ("https://a/{target_port}", TemplateError::MissingVariable("target_host")),
        ("https://a/{target_host}", TemplateError::MissingVariable("target_port")),
        ("https://a/|/{target_host}/{target_port}", TemplateError::InvalidLiteral('|')),
        ("https://a/%4/{target_host}/{target_port}", TemplateError::InvalidLiteral('%')),
        ("https://a/{target_host}{target_port}", TemplateError::Undelimited),
        ("https://a/{target_host}.{target_port}", TemplateError::Undelimited),
        ("https://a/b{?target_host,target_port}x", TemplateError::Undelimited),
    ] {
        assert_eq!(parse(TunnelKind::Udp, text), Err(error), "{text}");
        assert!(!error.to_string().is_empty());
    }
    assert!(parse(TunnelKind::Udp, &format!("https://a/{variables}")).is_ok());
    // An ambiguous template is enough for a client.
    let text = "https://a/{target_host}.{target_port}";
    let template = UriTemplate::parse(TunnelKind::Udp, text).unwrap();
    assert_eq!(template.expand(&target("b.c:4")).unwrap(), "https://a/b.c.4");
    assert_eq!(template.matches("/b.c.4"), None);
}

#[test]
fn other_variables_are_omitted_and_ignored() {
    let text = "https://a/{x,target_host}/{y}?z{&target_port,w}";
    let template = parse(TunnelKind::Udp, text).unwrap();
    let values = target("b:1");
    let uri = template.expand(&values).unwrap();
    assert_eq!(uri, "https://a/b/?z&target_port=1");
    assert_eq!(template.matches("/1,b/2?z&target_port=1&w=3"), Some(Ok(values)));
    assert_eq!(template.matches("/1,2,b/2?z&target_port=1"), None);
    assert_eq!(template.matches("/1,b/2?z&w=3"), Some(Err(TargetError::EmptyPort)));
}

#[test]
fn only_requests_of_the_template_match() {
    let template = "https://a/.well-known/masque/udp/{target_host}/{target_port}/";
    let template = parse(TunnelKind::Udp, template).unwrap();
    for path in [
        "/",
        "/.well-known/masque/tcp/b/1/",
        "/.well-known/masque/udp/b/1",
        "/.well-known/masque/udp/b/1/2/",
        "/.well-known/masque/udp/b/1/?x",
        "/.well-known/masque/udp/b",
    ] {
        assert_eq!(template.matches(path), None, "{path}");
    }
    for (path, error) in [
        ("/.well-known/masque/udp//1/", TargetError::EmptyHost),
        ("/.well-known/masque/udp/b//", TargetError::EmptyPort),
        ("/.well-known/masque/udp/b/0/", TargetError::InvalidPort),
        ("/.well-known/masque/udp/%zz/1/", TargetError::InvalidEncoding),
    ] {
        assert_eq!(template.matches(path), Some(Err(error)), "{path}");
    }
}

fn host() -> impl Strategy<Value = Host> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|bytes| Host::V4(bytes.into())),
        any::<[u16; 8]>().prop_map(|words| Host::V6(words.into())),
        "[a-z0-9_-]{1,20}(\\.[a-z][a-z0-9-]{0,20}){0,4}"
            .prop_filter_map("a name", |text| Name::parse(&text).ok().map(Host::Name)),
    ]
}

proptest! {
    #[test]
    fn what_is_expanded_matches(host in host(), port in 1u16.., form in 0usize..4) {
        let text = [
            "https://a/{target_host}/{target_port}/",
            "https://a/{target_host}:{target_port}",
            "https://a/b?c={target_host}&d={target_port}",
            "https://a/b{?target_port}{&target_host}",
        ];
        let template = parse(TunnelKind::Udp, text[form]).unwrap();
        let values = Values::Target(Target { host, port: port.try_into().unwrap() });
        let uri = template.expand(&values).unwrap();
        let path = uri.path_and_query().unwrap().as_str();
        prop_assert_eq!(template.matches(path), Some(Ok(values)));
    }

    #[test]
    fn anything_is_parsed_or_refused(text in "(https://a/)?[ -~]{0,60}", path in "\\PC{0,60}") {
        for kind in TunnelKind::ALL {
            if let Ok(template) = UriTemplate::parse(kind, &text) {
                prop_assert_eq!(UriTemplate::parse(kind, &template.to_string()), Ok(template.clone()));
                _ = template.matches(&path);
            }
        }
    }
}
