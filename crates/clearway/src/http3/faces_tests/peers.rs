//! Tests of what servers know about the client of a request.

use super::{Face, Pair, SECOND, get, over_each_face};

over_each_face! {
    a_request_has_its_client_as_an_extension
    a_client_that_has_gone_is_still_known
    an_idle_connection_does_not_keep_its_client
}

fn a_request_has_its_client_as_an_extension(face: Face) {
    let mut pair = Pair::new(face);
    pair.answer(get("/first"));
    pair.answer(get("/second"));
    let [first, second] = ["/first", "/second"].map(|path| pair.record(path).peer.unwrap());
    assert_eq!(first.remote_address(), "127.0.0.1:443".parse().unwrap());
    assert_eq!(first.local_ip(), None, "the simulated system does not report it");
    assert_eq!(first.server_name(), Some("localhost"));
    assert_eq!(first.application_protocol(), Some(&b"h3"[..]));
    assert!(first.key_exchange_group().is_some() && first.identity().is_none());
    assert!(first.downgrade().ptr_eq(&second.downgrade()), "requests share their client's memory");
    // A handler is called on the shard, and has the connection itself.
    assert_eq!(first.connection().is_some(), face == Face::Tasks);
}

fn a_client_that_has_gone_is_still_known(face: Face) {
    let mut pair = Pair::new(face);
    pair.answer(get("/first"));
    let peer = pair.record("/first").peer.unwrap();
    drop(pair);
    assert_eq!(peer.remote_address(), "127.0.0.1:443".parse().unwrap());
    assert_eq!(peer.server_name(), Some("localhost"));
}

fn an_idle_connection_does_not_keep_its_client(face: Face) {
    let mut pair = Pair::new(face);
    pair.answer(get("/first"));
    let first = pair.record("/first").peer.unwrap().downgrade();
    pair.records.lock().unwrap().clear();
    assert_eq!(first.strong_count(), 1, "the connection has it for the next request");
    pair.world.run_for(60 * SECOND);
    assert_eq!(first.strong_count(), 0);
    pair.answer(get("/second"));
    assert!(pair.record("/second").peer.is_some());
}
