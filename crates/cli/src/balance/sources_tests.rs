use std::net::{IpAddr, Ipv4Addr};

use super::*;

/// Nothing listens at the source's address.
const FILE: &str = "
    [[config]]
    id = 0
    server-id-length = 4
    nonce-length = 12
    [[server]]
    name = \"a\"
    address = \"192.0.2.1:443\"
    server-id = \"01020304\"
    [[source]]
    kubernetes = \"default/web\"
    api = \"http://127.0.0.1:1\"
    server-id = \"address\"
";

const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);

fn parse(text: &str) -> Backends {
    Backends::parse(text).unwrap_or_else(|fault| panic!("{fault:?}"))
}

fn entry(name: &str, address: &str) -> Entry {
    Entry {
        name: name.to_owned(),
        address: address.parse().unwrap(),
        server_id: None,
        weight: 1,
        is_draining: false,
        place: format!("slice of {name}"),
    }
}

fn names(backends: &Backends) -> Vec<&str> {
    backends.servers.iter().map(|server| server.name.as_str()).collect()
}

/// Returns the state after the file's first source has published `entries` as its first update.
async fn started(entries: Vec<Entry>) -> Sources {
    let mut sources = Sources::start(parse(FILE), LISTEN);
    sources.sender.send((1, Ok(entries))).await.unwrap();
    let backends = sources.first(|_| ()).await.unwrap();
    assert_eq!(names(&backends), ["a", "b"]);
    sources
}

/// Runs the sources in a task. Returns the channels for file changes and updates, and for the
/// results.
fn run(
    sources: Sources,
) -> (mpsc::Sender<Reread>, mpsc::Sender<(u64, Update)>, mpsc::Receiver<Reread>) {
    let updates = sources.sender.clone();
    let (file, receiver) = mpsc::channel(1);
    let (sender, rereads) = mpsc::channel(1);
    tokio::spawn(sources.run(receiver, sender));
    (file, updates, rereads)
}

/// Returns the next result that is not a failure to connect: the source itself causes such a
/// failure sooner or later.
async fn next(rereads: &mut mpsc::Receiver<Reread>) -> Reread {
    loop {
        match rereads.recv().await.unwrap() {
            Err(failure) if failure.to_string().contains("cannot connect") => {}
            reread => return reread,
        }
    }
}

#[tokio::test]
async fn what_a_source_says_is_added_to_the_file() {
    let sources = started(vec![entry("b", "192.0.2.2:443")]).await;
    let (_file, updates, mut rereads) = run(sources);
    let two = vec![entry("c", "192.0.2.3:443"), entry("b", "192.0.2.2:443")];
    updates.send((1, Ok(two.clone()))).await.unwrap();
    let backends = next(&mut rereads).await.unwrap();
    assert_eq!(names(&backends), ["a", "b", "c"]);
    assert_eq!(backends.servers[2].ids[0].1.to_string(), "c0000203");
    // The same entries in another order are not a change, and a failure is reported only once.
    updates.send((1, Ok(two.into_iter().rev().collect()))).await.unwrap();
    for _ in 0..2 {
        updates.send((1, Err("it is asleep".to_owned()))).await.unwrap();
    }
    let failure = next(&mut rereads).await.unwrap_err();
    assert_eq!(failure.to_string(), "Kubernetes default/web: it is asleep");
    updates.send((1, Ok(vec![entry("d", "192.0.2.4:443")]))).await.unwrap();
    assert_eq!(names(&next(&mut rereads).await.unwrap()), ["a", "d"]);
}

#[tokio::test]
async fn servers_that_contradict_each_other_are_told_with_their_places() {
    let sources = started(vec![entry("b", "192.0.2.2:443")]).await;
    let (_file, updates, mut rereads) = run(sources);
    updates.send((1, Ok(vec![entry("b", "192.0.2.1:443")]))).await.unwrap();
    let failure = next(&mut rereads).await.unwrap_err();
    let expected = "servers \"a\" and \"b\" have the same address, 192.0.2.1:443: \"a\" is listed in the file, \
                    \"b\" comes from Kubernetes default/web, slice of b";
    assert_eq!(failure.to_string(), expected);
    updates.send((1, Ok(vec![entry("b", "1.2.3.4:443")]))).await.unwrap();
    let failure = next(&mut rereads).await.unwrap_err().to_string();
    assert!(failure.contains("the same server ID in configuration 0, 01020304"), "{failure}");
    updates.send((1, Ok(vec![entry("b", "[2001:db8::1]:443")]))).await.unwrap();
    let failure = next(&mut rereads).await.unwrap_err().to_string();
    assert!(failure.contains("slice of b: a server ID derived from the address"), "{failure}");
}

#[tokio::test]
async fn a_new_file_keeps_the_sources_that_it_still_has() {
    let sources = started(vec![entry("b", "192.0.2.2:443")]).await;
    let (file, updates, mut rereads) = run(sources);
    let other = FILE.replace("name = \"a\"", "name = \"z\"");
    file.send(Ok(parse(&other))).await.unwrap();
    assert_eq!(names(&next(&mut rereads).await.unwrap()), ["z", "b"]);
    // The servers of a new source are not known yet, so nothing changes.
    file.send(Ok(parse(&other.replace("default/web", "default/other")))).await.unwrap();
    while !rereads.recv().await.unwrap().unwrap_err().to_string().contains("default/other") {}
    updates.send((1, Ok(vec![entry("old", "192.0.2.9:443")]))).await.unwrap();
    updates.send((2, Ok(vec![entry("new", "192.0.2.8:443")]))).await.unwrap();
    assert_eq!(names(&next(&mut rereads).await.unwrap()), ["z", "new"]);
    file.send(Err(Failure::new("wrong"))).await.unwrap();
    assert_eq!(next(&mut rereads).await.unwrap_err().to_string(), "wrong");
}

/// Entries with an address that a server must not have, or with an invalid name, are skipped; the
/// others are used.
#[tokio::test]
async fn entries_that_are_no_servers_are_skipped() {
    let sources = started(vec![entry("b", "192.0.2.2:443")]).await;
    let (_file, updates, mut rereads) = run(sources);
    let no_servers = [
        ("own", "127.0.0.1:4433", "this balancer itself listens there (127.0.0.1:4433)"),
        ("own-mapped", "[::ffff:127.0.0.1]:4433", "this balancer itself"),
        ("group", "224.0.0.1:443", "multicast"),
        ("group-v6", "[ff02::1]:443", "multicast"),
        ("all", "255.255.255.255:443", "broadcast"),
        ("none", "0.0.0.0:443", "unspecified"),
        ("no-port", "192.0.2.3:0", "the port is 0"),
        ("link", "[fe80::1]:443", "zone"),
        ("bell\u{7}", "192.0.2.4:443", "the name contains unprintable characters"),
        ("\u{202e}", "192.0.2.4:443", "the name contains unprintable characters"),
        ("", "192.0.2.4:443", "the name has 0 octets"),
    ];
    let mut entries = vec![entry("b", "192.0.2.2:443"), entry(&"x".repeat(260), "192.0.2.4:443")];
    entries.extend(no_servers.map(|(name, address, _)| entry(name, address)));
    updates.send((1, Ok(entries))).await.unwrap();
    let backends = next(&mut rereads).await.unwrap();
    assert_eq!(names(&backends), ["a", "b"]);
    assert_eq!(backends.skipped.len(), 12, "{:?}", backends.skipped);
    for (name, _, why) in no_servers {
        let place = format!("Kubernetes default/web, slice of {}: ", printable(name));
        let is_named = |it: &&String| it.starts_with(&place) && it.contains(why);
        assert!(backends.skipped.iter().any(|it| is_named(&it)), "{name:?} {:?}", backends.skipped);
    }
    // If no entries are left, the servers remain unchanged.
    let own = FILE
        .replace("[[server]]", "")
        .replace("name = \"a\"", "")
        .replace("address = \"192.0.2.1:443\"", "");
    let own = own.replace("server-id = \"01020304\"", "");
    let refused =
        parse(&own).with_entries(&[&[entry("own", "127.0.0.1:4433")]], &Own::listening_on(LISTEN));
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("has no servers; Kubernetes default/web, slice of own: "), "{why}");
}
