use std::time::Duration;

use clearway_balancer::{Pool, PoolError, ServerState};
use clearway_wire::quic_lb::ConfigId;

use super::places::{Places, ServerPlaces};
use super::{Backends, Own};

/// A file that contains every key.
const WHOLE: &str = r#"
seed = 7

[[config]]
id = 0
server-id-length = 2
nonce-length = 14
key = "8f95f09245765f80256934e50c66207f"

[[config]]
id = 1
server-id-length = 8
nonce-length = 6

[[server]]
name = "a"
address = "192.0.2.1:4433"
server-id = { 0 = "0a01", 1 = "0x0102030405060708" }
weight = 3

[[server]]
name = "b"
address = "[2001:db8::1]:443"
drain = true
preface = false
id-length = 9

[health]
interval = "500ms"
timeout = "250ms"
down-after = 2
up-after = 4
slow-start = "1min"
server-name = "www.example"
application-protocol = "perf"
off = true
"#;

fn parse(text: &str) -> Result<Backends, String> {
    Backends::parse(text).map_err(|fault| fault.in_file("f".as_ref(), text).to_string())
}

fn fault(text: &str) -> String {
    parse(text).map(|backends| panic!("{backends:?}")).unwrap_err()
}

fn own(listen: &str) -> Own {
    Own::listening_on(listen.parse().unwrap())
}

/// The balancer's own address, and addresses that do not belong to a single host, such as multicast
/// addresses, are rejected with their position in the file.
#[test]
fn addresses_that_are_no_servers() {
    let file = |address: &str| format!("[[server]]\nname = \"a\"\naddress = \"{address}\"\n");
    let said = |listen: &str, address: &str| {
        let text = file(address);
        let parsed = Backends::parse_beside(&text, Some(&own(listen)));
        parsed.map_err(|fault| fault.in_file("f".as_ref(), &text).to_string())
    };
    for (listen, address, why) in [
        ("127.0.0.1:4433", "127.0.0.1:4433", "this balancer itself listens there (127.0.0.1:4433)"),
        ("0.0.0.0:4433", "127.0.0.1:4433", "this balancer itself listens there (0.0.0.0:4433)"),
        ("[::]:4433", "[::ffff:127.0.0.1]:4433", "this balancer itself listens there"),
        ("127.0.0.1:1", "239.1.2.3:443", "multicast"),
        ("127.0.0.1:1", "[ff02::1%1]:443", "multicast"),
        ("127.0.0.1:1", "255.255.255.255:443", "broadcast"),
        ("127.0.0.1:1", "[::]:443", "unspecified"),
        ("127.0.0.1:1", "192.0.2.1:0", "the port is 0"),
        ("127.0.0.1:1", "[fe80::1]:443", "zone"),
    ] {
        let fault = said(listen, address).unwrap_err();
        assert!(fault.starts_with("f:3:11: ") && fault.contains(why), "{fault}");
    }
    for (listen, address) in [("127.0.0.1:1", "[fe80::1%2]:443"), ("127.0.0.1:0", "127.0.0.1:443")]
    {
        assert_eq!(said(listen, address).unwrap().servers[0].address, address.parse().unwrap());
    }
}

#[test]
fn retries_need_servers_that_see_their_clients() {
    let file = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\n[retry]\nabove = 500\n";
    assert_eq!(parse(file).unwrap().retry_above, Some(500));
    let said = fault(&file.replace("[retry]", "preface = false\n[retry]"));
    assert!(said.starts_with("f:6:9: ") && said.contains("preface = false"), "{said}");
    assert!(fault(&file.replace("500", "-1")).contains("from 0 to"));
}

#[test]
fn a_file_with_everything() {
    let backends = parse(WHOLE).unwrap();
    let [encrypted, plain] = &backends.configs[..] else { panic!("{backends:?}") };
    assert_eq!((encrypted.config().number(), encrypted.id_len()), (0, 18));
    assert!(encrypted.is_encrypted() && !plain.is_encrypted());
    assert_eq!((plain.config().number(), plain.id_len()), (1, 15));
    let [a, b] = &backends.servers[..] else { panic!("{backends:?}") };
    assert_eq!((&a.name[..], a.address), ("a", "192.0.2.1:4433".parse().unwrap()));
    assert_eq!((a.weight, a.state, a.has_preface), (3, ServerState::Active, true));
    let ids: Vec<_> = a.ids.iter().map(|(config, id)| (config.number(), id.to_string())).collect();
    assert_eq!(ids, [(0, "0a01".to_owned()), (1, "0102030405060708".to_owned())]);
    assert_eq!((b.address, b.id_len), ("[2001:db8::1]:443".parse().unwrap(), Some(9)));
    assert_eq!((b.weight, b.state, b.has_preface), (1, ServerState::Draining, false));
    assert!(b.ids.is_empty() && a.id_len.is_none());
    let health = &backends.health;
    assert_eq!(health.settings.interval, Duration::from_millis(500));
    assert_eq!(health.timeout, Duration::from_millis(250));
    assert_eq!((health.settings.down_after, health.settings.up_after), (2, 4));
    assert_eq!(health.application_protocol, "perf");
    assert_eq!(
        (health.settings.slow_start, &health.server_name[..]),
        (Duration::from_secs(60), "www.example")
    );
    assert!(health.is_off);
}

#[test]
fn the_example_of_the_documents_is_right() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet/backends.toml");
    let backends = Backends::read(path.as_ref(), &own("192.0.2.99:443")).unwrap();
    assert_eq!((backends.servers.len(), backends.configs[0].id_len()), (3, 18));
}

#[test]
fn what_is_left_out_has_a_default() {
    let backends = parse("[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\n").unwrap();
    let health = &backends.health;
    assert_eq!(
        (health.settings.interval, health.timeout),
        (Duration::from_millis(500), Duration::from_secs(1))
    );
    assert_eq!((health.settings.down_after, health.settings.up_after), (3, 2));
    assert_eq!(health.application_protocol, "h3");
    assert_eq!(
        (health.settings.slow_start, &health.server_name[..]),
        (Duration::from_secs(30), "localhost")
    );
    assert!(!health.is_off && backends.configs.is_empty());
}

#[test]
fn our_servers_add_an_octet_to_encrypted_ids() {
    let of = |more: &str| {
        let config = "[[config]]\nid = 3\nserver-id-length = 1\nnonce-length = 8\n";
        let server = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\nserver-id = \"ff\"\n";
        parse(&format!("{config}{more}\n{server}")).unwrap().configs[0].extra_len()
    };
    let key = format!("key = \"{}\"", "0".repeat(32));
    assert_eq!((of(""), of(&key)), (0, 1));
    assert_eq!(of(&format!("{key}\nfurther-octets = 0")), 0);
    assert_eq!(of("further-octets = 4"), 4);
}

#[test]
fn server_ids_of_aws() {
    let config = "[[config]]\nid = 0\nserver-id-length = 8\nnonce-length = 7\n";
    for written in [
        "server-id = \"0xfbffbf0102030405\"",
        "server-id-base64 = \"+/+/AQIDBAU=\"",
        "server-id-base64 = \"-_-_AQIDBAU\"",
    ] {
        let server = format!("[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\n{written}\n");
        let backends = parse(&format!("{config}{server}")).unwrap();
        let (config, id) = backends.servers[0].ids[0];
        assert_eq!(
            (config, id.to_string()),
            (ConfigId::new(0).unwrap(), "fbffbf0102030405".into())
        );
    }
}

/// An IPv4-mapped IPv6 address equals the IPv4 address, so duplicates are found.
#[test]
fn addresses_have_one_form() {
    let servers = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\n\
                   [[server]]\nname = \"b\"\naddress = \"[::ffff:192.0.2.1]:1\"\n";
    assert!(fault(servers).starts_with("f:6:11: \"a\" and \"b\" have the same address"));
}

/// Replaces `from` in the complete file with `marked`, in which `»` marks the position of the
/// expected error. Returns the error.
#[track_caller]
fn change(from: &str, marked: &str) -> String {
    assert_eq!(WHOLE.matches(from).count(), 1, "{from}");
    wrong(&WHOLE.replace(from, marked))
}

#[track_caller]
fn wrong(marked: &str) -> String {
    let (before, after) = marked.split_once('»').expect("a mark");
    let line = before.lines().count() + usize::from(before.is_empty() || before.ends_with('\n'));
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message = fault(&format!("{before}{after}"));
    let place = format!("f:{line}:{column}: ");
    message.strip_prefix(&place).unwrap_or_else(|| panic!("not at {place}: {message}")).to_owned()
}

#[track_caller]
fn says(message: &str, what: &str, advice: &str) {
    assert!(message.contains(what) && message.contains(advice), "{message}");
}

#[test]
fn what_is_no_toml() {
    says(&wrong("seed = »\n"), "string", "");
    says(&change("seed = 7", "seed = 7\n»seed = 8"), "duplicate", "");
    says(&wrong("[[server»\n"), "", "");
}

#[test]
fn keys_that_are_unknown_or_missing() {
    says(
        &change("seed", "»sead"),
        "unknown key sead",
        "use one of seed, config, server, source, health",
    );
    says(&change("weight", "»wieght"), "unknown key wieght", "weight, drain, preface");
    says(
        &change("nonce-length = 14", "»nonce = 14"),
        "unknown key nonce",
        "nonce-length, key, further-octets",
    );
    says(&change("up-after", "»up"), "unknown key up", "down-after, up-after");
    says(
        &change("[[server]]\nname = \"b\"\n", "»[[server]]\n"),
        "the key name is missing",
        "add it",
    );
    says(&change("[[config]]\nid = 1\n", "»[[config]]\n"), "the key id is missing", "add it");
    says(&wrong("»seed = 1\n"), "the file lists no servers", "add [[server]]");
}

#[test]
fn numbers_out_of_their_ranges_and_values_of_another_type() {
    says(&change("seed = 7", "seed = »-1"), "-1 is out of range", "a whole number from 0 to");
    says(&change("id = 0\n", "id = »7\n"), "7 is out of range", "from 0 to 6");
    says(&change("server-id-length = 2", "server-id-length = »16"), "16", "from 1 to 15");
    says(&change("nonce-length = 6", "nonce-length = »3"), "3 is out of range", "from 4 to 18");
    says(
        &change("nonce-length = 6", "nonce-length = 6\nfurther-octets = »15"),
        "15",
        "from 0 to 14",
    );
    says(&change("weight = 3", "weight = »1001"), "1001 is out of range", "from 0 to 1000");
    says(&change("weight = 3", "weight = »\"3\""), "string \"3\"", "a whole number from 0 to 1000");
    says(&change("id-length = 9", "id-length = »21"), "21 is out of range", "from 0 to 20");
    says(&change("drain = true", "drain = »1"), "integer `1`", "a boolean");
    says(&change("down-after = 2", "down-after = »0"), "0 is out of range", "from 1 to 1000");
    says(&change("\"500ms\"", "»\"500\""), "\"500\" is not a duration", "such as 10ms");
    says(&change("\"500ms\"", "»\"0s\""), "the duration must not be 0", "such as \"2s\"");
    says(&change("\"250ms\"", "»2"), "integer `2`", "a duration with its unit, in quotes");
    says(
        &change("\"www.example\"", "»\"www example\""),
        "is not a server name",
        "write a DNS name",
    );
    says(&change("\"perf\"", "»\"\""), "1 to 255 octets", "such as \"h3\"");
}

#[test]
fn configs_that_cannot_be() {
    says(
        &change("nonce-length = 14", "nonce-length = »18"),
        "have 20 octets in total: expected at most 19",
        "shorten",
    );
    says(
        &change("nonce-length = 14", "nonce-length = 14\nfurther-octets = »4"),
        "invalid connection ID length 21: expected at most 20 octets",
        "further-octets = 0",
    );
    // With the default of one additional octet.
    let without_room = "server-id-length = 2\nnonce-length = »17";
    let changed = WHOLE
        .replace("{ 0 = \"0a01\", ", "{ ")
        .replace("server-id-length = 2\nnonce-length = 14", without_room);
    says(
        &wrong(&changed),
        "invalid connection ID length 21: expected at most 20 octets",
        "further-octets = 0",
    );
    let key = "\"8f95f09245765f80256934e50c66207f\"";
    says(&change(key, "»\"8f95\""), "32 hexadecimal digits", "openssl rand -hex 16");
    let message = change(key, "»\"8f95f09245765f80256934e50c66207g\"");
    assert!(!message.contains("8f95"), "the message contains the key: {message}");
    says(&change("id = 1", "id = »0"), "two configs have id = 0", "give each a different one");
}

#[test]
fn servers_that_cannot_be() {
    says(
        &change("\"192.0.2.1:4433\"", "»\"192.0.2.1\""),
        "is not an address",
        "such as \"192.0.2.1:443\"",
    );
    says(
        &change("\"192.0.2.1:4433\"", "»\"example.org:443\""),
        "is not an address",
        "write an IP address",
    );
    says(&change("\"192.0.2.1:4433\"", "»\"0.0.0.0:443\""), "cannot be a server address", "");
    says(&change("\"192.0.2.1:4433\"", "»\"192.0.2.1:0\""), "cannot be a server address", "");
    says(&change("\"b\"", "»\"\""), "at least one character", "choose another");
    says(&change("\"b\"", "»\"b\\n\""), "no control characters", "choose another");
    says(
        &change("name = \"b\"", "name = »\"a\""),
        "two servers are named \"a\"",
        "give each a different name",
    );
    says(
        &change("\"[2001:db8::1]:443\"", "»\"192.0.2.1:4433\""),
        "\"a\" and \"b\" have the same address 192.0.2.1:4433",
        "remove one of them",
    );
    says(
        &change("id-length = 9", "server-id = { 1 = \"0807060504030201\", 0 = »\"0a01\" }"),
        "\"a\" and \"b\" have the same server ID 0a01 in config 0",
        "give each a different one",
    );
}

#[test]
fn servers_that_are_too_many() {
    let server = |number: usize| {
        let port = number % 60_000 + 1;
        format!("[[server]]\nname = \"{number}\"\naddress = \"192.0.2.1:{port}\"\n")
    };
    let file = |count: usize| -> String { (0..count).map(server).collect() };
    assert!(parse(&file(Pool::MAX_SERVERS)).is_ok());
    let message = fault(&file(Pool::MAX_SERVERS + 1));
    let line = 3 * Pool::MAX_SERVERS + 2;
    says(&message, &format!("f:{line}:8: a pool can have at most"), "distribute them");
}

#[test]
fn server_ids_that_cannot_be() {
    says(
        &change("\"0a01\"", "»\"0a0\""),
        "\"0a0\" is not a server ID",
        "two hexadecimal digits for each",
    );
    says(&change("\"0a01\"", "»\"\""), "invalid server ID length 0: expected 1 to 15 octets", "");
    says(&change("\"0a01\"", "»\"0a0102\""), "0a0102 has 3 octets", "server-id-length = 2");
    says(&change("1 = \"0x01", "»8 = \"0x01"), "\"8\" is not a config ID", "0 to 6");
    says(
        &change("1 = \"0x0102030405060708\"", "2 = »\"0102\""),
        "config 2, which does not exist",
        "id = 2",
    );
    let each = "{ 0 = \"0a01\", 1 = \"0x0102030405060708\" }";
    says(&change(each, "»\"0a01\""), "there are 2 configs", "server-id = { 0 = \"…\", 1 = \"…\" }");
    says(&change(each, "»5"), "integer `5`", "hexadecimal digits in quotes");
    let without = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:1\"\nserver-id = »\"01\"\n";
    says(&wrong(without), "there is no [[config]]", "add one, or remove the server ID");
    says(
        &change("id-length = 9", "server-id-base64 = »\"?\""),
        "\"?\" is not base64",
        "copy it unchanged",
    );
    says(
        &change(
            "id-length = 9",
            "server-id = { 0 = \"0b01\" }\nserver-id-base64 = »\"AQIDBAUGBwg=\"",
        ),
        "mutually exclusive",
        "remove one",
    );
    says(
        &change("id-length = 9", "server-id = { 0 = \"0b01\" }\nid-length = »9"),
        "id-length is only for servers without a server ID",
        "remove id-length",
    );
}

#[test]
fn columns_are_characters() {
    says(&wrong("[[server]]\nname = \"ä\"\n'address' = »\"ö\"\n"), "\"ö\" is not an address", "");
    says(
        &wrong("[health]\n\"ünbekannt\" = 1\n".replacen('"', "»\"", 1).as_str()),
        "unknown key ünbekannt",
        "",
    );
    says(&wrong("server = [{ name = \"ä\", address = »\"ö\" }]\n"), "\"ö\" is not an address", "");
}

/// If several servers, configs or server IDs conflict, the error is reported at the last one that
/// conflicts with an earlier one, regardless of other entries around them.
#[test]
fn a_contradiction_is_shown_at_the_later_of_both() {
    let config = |id: u8, length: u8| {
        format!("[[config]]\nid = {id}\nserver-id-length = {length}\nnonce-length = 8\n")
    };
    let server = |name: &str, address: &str, more: &str| {
        format!("[[server]]\nname = {name}\naddress = {address}\n{more}\n")
    };
    let plain = |name: &str, address: &str| server(name, address, "");
    let (two, eight) = (config(0, 2), config(1, 8));
    for (marked, what) in [
        (
            plain("\"a\"", "\"192.0.2.1:1\"")
                + &plain("\"b\"", "\"192.0.2.2:1\"")
                + &plain("\"c\"", "»\"192.0.2.1:1\"")
                + &plain("\"d\"", "\"192.0.2.4:1\""),
            "\"a\" and \"c\" have the same address",
        ),
        (
            plain("\"a\"", "\"192.0.2.1:1\"")
                + &plain("\"b\"", "\"192.0.2.2:1\"")
                + &plain("»\"a\"", "\"192.0.2.3:1\"")
                + &plain("\"d\"", "\"192.0.2.4:1\""),
            "two servers are named \"a\"",
        ),
        (
            config(0, 2)
                + &config(1, 2)
                + "[[config]]\nid = »0\nserver-id-length = 4\nnonce-length = 8\n"
                + &config(2, 2)
                + &plain("\"a\"", "\"192.0.2.1:1\""),
            "two configs have id = 0",
        ),
        (
            two.clone()
                + &config(1, 2)
                + &server("\"a\"", "\"192.0.2.1:1\"", "server-id = { 0 = \"0a01\", 1 = \"0a02\" }")
                + &server("\"b\"", "\"192.0.2.2:1\"", "server-id = { 0 = \"0a02\", 1 = \"0a01\" }")
                + &server(
                    "\"c\"",
                    "\"192.0.2.3:1\"",
                    "server-id = { 0 = \"0a03\", 1 = »\"0a02\" }",
                )
                + &server("\"d\"", "\"192.0.2.4:1\"", "server-id = { 0 = \"0a04\", 1 = \"0a03\" }"),
            "\"a\" and \"c\" have the same server ID 0a02 in config 1",
        ),
        // The same server ID has the correct length for one config, but not for another.
        (
            two.clone()
                + &eight
                + &server(
                    "\"a\"",
                    "\"192.0.2.1:1\"",
                    "server-id = { 0 = \"0a01\", 1 = »\"0a01\" }",
                ),
            "0a01 has 2 octets, but its config has server-id-length = 8",
        ),
        // Two configs have the same length.
        (
            two + &config(1, 2)
                + &server(
                    "\"a\"",
                    "\"192.0.2.1:1\"",
                    "server-id = { 0 = \"0a01\", 1 = »\"0a0102\" }",
                ),
            "0a0102 has 3 octets, but its config has server-id-length = 2",
        ),
    ] {
        says(&wrong(&marked), what, "");
    }
}

/// No two names with the same hash are known, so the error is constructed here.
#[test]
fn names_with_the_same_hash_are_shown_at_the_later_one() {
    let file: String = ["a", "b", "c"]
        .map(|name| {
            format!(
                "[[server]]\nname = \"{name}\"\naddress = \"192.0.2.1:{}\"\n",
                name.as_bytes()[0]
            )
        })
        .concat();
    let servers = parse(&file).unwrap().servers;
    let at = |start: usize| ServerPlaces { name: start..start + 1, address: 0..0, ids: Vec::new() };
    let places = Places { configs: Vec::new(), servers: vec![at(5), at(4), at(6)] };
    for names in [["a", "b"], ["b", "a"]] {
        let error = PoolError::KeyTwice(names.map(str::to_owned));
        let fault = places.fault(&error, &[], &servers).in_file("f".as_ref(), "0123456789");
        assert!(fault.to_string().starts_with("f:1:5: "), "{fault}");
        assert!(fault.to_string().contains("have the same hash"), "{fault}");
    }
}

#[test]
fn text_of_sources_is_escaped_and_truncated() {
    let printable = super::printable;
    for (text, expected) in [
        ("it's a \"name\" \u{e9}\u{4e2d}", "it's a \"name\" \u{e9}\u{4e2d}"),
        ("a\nb\u{1b}c", "a\\nb\\u{1b}c"),
        ("\u{202e}", "\\u{202e}"),
        ("a\\b", "a\\\\b"),
    ] {
        assert_eq!(printable(text), expected);
    }
    assert_eq!(printable(&"x".repeat(500)), "x".repeat(500));
    assert_eq!(printable(&"x".repeat(501)), "x".repeat(500) + "…");
}
