use clap::{Command, FromArgMatches};
use clearway_dns::{Request, Server};
use prometheus_client::registry::Registry;

use super::*;
use crate::exporter::tests::{assert_documented, text};

fn parse(arguments: &[&str]) -> Result<DnsCommand, String> {
    let command = DnsCommand::augment_args(Command::new("dns"));
    let matches = command.try_get_matches_from([&["dns"], arguments].concat());
    let matches = matches.map_err(|error| error.to_string())?;
    DnsCommand::from_arg_matches(&matches).map_err(|error| error.to_string())
}

#[test]
fn upstream_servers_keep_their_order() {
    let command = parse(&["--upstream", "udp://192.0.2.1", "--upstream", "quic://dns.example"]);
    let upstreams: Vec<_> = command.unwrap().upstream.iter().map(Upstream::to_string).collect();
    assert_eq!(upstreams, ["udp://192.0.2.1", "quic://dns.example"]);
}

#[test]
fn wrong_options_are_explained() {
    let upstream = ["--upstream", "udp://192.0.2.1"];
    for (arguments, expected) in [
        (&[][..], "--upstream <URL>"),
        (&["--upstream", "192.0.2.1"], "it is not a URL; write it as quic://HOST"),
        (&["--upstream", "quic://192.0.2.1:53"], "must not use port 53"),
        (&["--query-timeout", "0s"], "must be longer than 0"),
        (&["--listen-udp", "127.0.0.1"], "expected an address and a port"),
        (&["--cert", "cert.pem"], "--key <FILE>"),
    ] {
        let is_complete = arguments.first() == Some(&"--upstream") || arguments.is_empty();
        let arguments =
            if is_complete { arguments.to_vec() } else { [&upstream, arguments].concat() };
        let error = parse(&arguments).unwrap_err();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn half_of_the_descriptors_are_for_queries_to_udp_servers() {
    assert_eq!(max_udp_sockets(Some(1024)), 512);
    assert_eq!(max_udp_sockets(Some(1 << 20)), 10_000);
    assert_eq!(max_udp_sockets(None), 10_000);
}

fn quiet() -> Registry {
    let roots = crate::certificate::Development::generate().unwrap().pem;
    let file = std::env::temp_dir().join(format!("clearway-dns-{}.pem", std::process::id()));
    std::fs::write(&file, roots).unwrap();
    let path = file.to_str().unwrap();
    let command = parse(&["--upstream", "udp://192.0.2.1", "--ca", path]).unwrap();
    let forwarder = forwarder(&command).unwrap();
    std::fs::remove_file(&file).unwrap();
    let server = Server::new(|it: Request| async move { it.response(0.into()) });
    metrics::registry(server, forwarder)
}

#[test]
fn the_document_lists_what_is_exported() {
    assert_documented(&quiet(), |name| name.starts_with("clearway_dns_"));
}

#[test]
fn protocols_and_upstream_servers_have_labels() {
    let text = text(&quiet());
    for sample in [
        "clearway_dns_queries_total{protocol=\"quic\"} 0",
        "clearway_dns_upstream_up{upstream=\"udp://192.0.2.1\"} 1",
        "clearway_dns_cache_bytes 0",
    ] {
        assert!(text.contains(&format!("\n{sample}\n")), "{sample}: {text}");
    }
}
