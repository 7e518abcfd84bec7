use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn sockets() -> Sockets {
    Sockets::new(Socket::bind(address("127.0.0.1:0")).unwrap())
}

const SERVER: &str = "127.0.0.1:4433";

#[test]
fn a_socket_is_named_like_the_server_that_it_sends_to() {
    for (local, remote, expected) in [
        ("0.0.0.0:5", "192.0.2.1:443", Some("0.0.0.0:5")),
        ("[::]:5", "192.0.2.1:443", Some("0.0.0.0:5")),
        ("[::ffff:192.0.2.9]:5", "192.0.2.1:443", Some("192.0.2.9:5")),
        ("0.0.0.0:5", "[2001:db8::1]:443", Some("[::]:5")),
        ("[2001:db8::9]:5", "[2001:db8::1]:443", Some("[2001:db8::9]:5")),
        ("0.0.0.0:5", "[::ffff:192.0.2.1]:443", Some("[::]:5")),
        ("192.0.2.9:5", "[::ffff:192.0.2.1]:443", Some("[::ffff:192.0.2.9]:5")),
        ("192.0.2.9:5", "[2001:db8::1]:443", None),
        ("[2001:db8::9]:5", "192.0.2.1:443", None),
        ("[2001:db8::9]:5", "[::ffff:192.0.2.1]:443", None),
    ] {
        let like = local_like(address(local), address(remote));
        assert_eq!(like, expected.map(address), "{local} {remote}");
    }
}

/// Connections at the same local address and port share a socket, which is closed with the last of
/// these connections. Its index is not reused.
#[test]
fn a_socket_is_closed_when_nobody_uses_it() {
    let mut sockets = sockets();
    let (first, ip) = sockets.acquire(address("0.0.0.0:0"), address(SERVER)).unwrap();
    assert_eq!(ip, Some(address(SERVER).ip()));
    let bound = sockets.get(first).unwrap().local_address();
    assert_eq!(sockets.acquire(bound, address(SERVER)).unwrap().0, first);
    let (second, _) = sockets.acquire(address("127.0.0.1:0"), address(SERVER)).unwrap();
    assert_ne!(first, second);
    sockets.release(first);
    assert!(sockets.get(first).is_some());
    sockets.release(first);
    assert!(sockets.get(first).is_none());
    let (third, _) = sockets.acquire(bound, address(SERVER)).unwrap();
    assert!(third > second);
    // The shard's own socket is never closed.
    let own = sockets.get(SocketIndex(0)).unwrap().local_address();
    assert_eq!(sockets.acquire(own, address(SERVER)).unwrap().0, SocketIndex(0));
    sockets.release(SocketIndex(0));
    assert!(sockets.get(SocketIndex(0)).is_some());
    assert!(!sockets.discard(SocketIndex(0)));
    assert!(sockets.discard(third) && sockets.get(third).is_none());
}

#[test]
fn the_number_of_sockets_is_limited() {
    let mut sockets = sockets();
    let any = address("127.0.0.1:0");
    let mut acquire = || sockets.acquire(any, address(SERVER));
    let opened: Vec<_> = (0..MAX_MIGRATION_SOCKETS).map(|_| acquire().unwrap().0).collect();
    let error = acquire().unwrap_err();
    assert!(
        matches!(error, MigrateFailure::TooManySockets { limit: MAX_MIGRATION_SOCKETS }),
        "{error:?}"
    );
    sockets.release(opened[7]);
    sockets.acquire(any, address(SERVER)).unwrap();
}

#[test]
fn a_socket_that_cannot_be_opened_or_used_is_not_kept() {
    let mut sockets = sockets();
    let error = sockets.acquire(address("192.0.2.1:0"), address(SERVER)).unwrap_err();
    assert!(matches!(error, MigrateFailure::Socket { .. }), "{error:?}");
    let error = sockets.acquire(address("[2001:db8::1]:0"), address(SERVER)).unwrap_err();
    assert!(matches!(error, MigrateFailure::OtherFamily(_)), "{error:?}");
    assert_eq!(sockets.open.len(), 1);
}

/// Packets that complete a handshake are received before the packets that the client sends next.
#[test]
fn sockets_for_long_headers_come_first() {
    let mut shards = [sockets()];
    crate::shard::long_headers::open(&mut shards);
    let (all, _) = shards[0].receiving();
    let are_own: Vec<_> = all.map(|(index, open)| open.known_as == index).collect();
    assert_eq!(are_own, [false, true]);
}
