use super::*;

const KEY: &str = "key = \"8f95f09245765f80256934e50c66207f\"";

fn parse(text: &str) -> Backends {
    Backends::parse(text).unwrap_or_else(|fault| panic!("{fault:?}"))
}

/// A file with three formats of connection IDs, and servers of every kind.
fn varied() -> Backends {
    parse(&format!(
        "[[config]]\nid = 0\nserver-id-length = 2\nnonce-length = 14\n{KEY}\n\
         [[config]]\nid = 1\nserver-id-length = 4\nnonce-length = 6\n{KEY}\nfurther-octets = 0\n\
         [[config]]\nid = 6\nserver-id-length = 4\nnonce-length = 6\n\
         [[server]]\nname = \"a\"\naddress = \"192.0.2.1:443\"\nweight = 3\n\
         server-id = {{ 0 = \"0a01\", 1 = \"01020304\" }}\n\
         [[server]]\nname = \"long name\"\naddress = \"[2001:db8::1]:443\"\nserver-id = {{ 6 = \"01020304\" }}\n\
         [[server]]\nname = \"c\"\naddress = \"192.0.2.3:443\"\ndrain = true\npreface = false\nid-length = 9\n\
         [[server]]\nname = \"d\"\naddress = \"192.0.2.4:443\"\nweight = 0\n\
         [[source]]\ndns = \"_quic._udp.example\"\nserver-id = \"stated\"\n\
         [health]\ninterval = \"500ms\"\ntimeout = \"250ms\"\nslow-start = \"1min\"\n"
    ))
}

#[test]
fn a_file_is_shown_in_aligned_columns() {
    let expected = "\
4 servers, 3 configs; new clients go to 2 of the servers; servers from DNS _quic._udp.example (not queried)

config  server ID  nonce  further  connection ID  encryption
0       2          14     1        18 octets      AES-128, one pass
1       4          6      0        11 octets      AES-128, four passes
6       4          6      0        11 octets      none: everyone can read the server ID

server     address            server IDs            preface  weight  share of new clients
a          192.0.2.1:443      0: 0a01, 1: 01020304  yes      3       75.0 %
long name  [2001:db8::1]:443  6: 01020304           yes      1       25.0 %
c          192.0.2.3:443      none                  no       1       draining
d          192.0.2.4:443      none                  yes      0       0.0 %

servers are checked every 500ms with a timeout of 250ms; a server is down after 3 failures and up after 2 \
successes, and gets its full share after 60s";
    assert_eq!(varied().text(), expected);
    let expected = "\
1 server, 0 configs

server  address        server IDs  preface  weight  share of new clients
a       192.0.2.1:443  none        yes      1       100.0 %

servers are not checked

new clients get a Retry above 500 Initial packets per second";
    let one = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:443\"\n\
               [health]\noff = true\n[retry]\nabove = 500\n";
    assert_eq!(parse(one).text(), expected);
    let source = parse("[[source]]\netcd = [\"https://a:2379\"]\nprefix = \"web/\"");
    let (head, _) =
        source.text().split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    assert_eq!(head, "0 servers, 0 configs; servers from etcd web/ (not queried)");
}

#[test]
fn scripts_get_everything_but_keys() {
    let backends = varied();
    let shown = backends.json();
    assert!(!shown.to_string().contains("8f95"), "{shown}");
    let expected = json!({
        "id": 1,
        "server_id_length": 4,
        "nonce_length": 6,
        "further_octets": 0,
        "connection_id_length": 11,
        "is_encrypted": true,
    });
    assert_eq!(shown["configs"][1], expected);
    let expected = json!({
        "name": "c",
        "address": "192.0.2.3:443",
        "server_ids": {},
        "connection_id_length": 9,
        "weight": 1,
        "is_draining": true,
        "has_preface": false,
        "share_of_new_clients": 0.0,
    });
    assert_eq!(shown["servers"][2], expected);
    assert_eq!(shown["servers"][0]["server_ids"], json!({ "0": "0a01", "1": "01020304" }));
    assert_eq!(shown["servers"][0]["is_draining"], false);
    assert_eq!(shown["sources"], json!(["DNS _quic._udp.example"]));
    assert_eq!(shown["checks"], true);
    let unchecked = "[[server]]\nname = \"a\"\naddress = \"192.0.2.1:443\"\n[health]\noff = true\n";
    assert_eq!(parse(unchecked).json()["checks"], false);
}
