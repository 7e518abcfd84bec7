//! Tests of a server's handles to its connections.

use core::future::poll_fn;
use core::time::Duration;

use clearway_http3::Priority;
use http::{Request, Response};

use super::{Accepting, Arc, DELAY, Exchange, Pair, SECOND, Scene, now_or_never};
use crate::http3::{Body, Code, ConnectionHandle, Error, Peer};

impl Pair {
    /// Returns the handle to the only connection of the server.
    fn handle(&self) -> ConnectionHandle {
        let [handle] = <[_; 1]>::try_from(self.server.connections()).unwrap();
        handle
    }

    /// Returns a server whose connections have this maximum age, with a connected client.
    fn aging(age: Duration) -> Self {
        let server = Arc::<Accepting>::default();
        server.set_max_age(age);
        Self::of(server)
    }
}

/// Waits until the end of a connection.
async fn closed(handle: ConnectionHandle) -> Error {
    handle.closed().await.unwrap()
}

#[test]
fn a_handle_belongs_to_the_connection_of_its_requests() {
    let mut pair = Pair::new();
    let exchange = pair.post();
    let peer = exchange.responder.peer().unwrap();
    let handle = peer.connection().unwrap();
    assert_eq!(handle.stable_id(), pair.handle().stable_id());
    assert_eq!(handle.peer().remote_address(), exchange.responder.remote_address().unwrap());
    assert!(pair.handle().peer().downgrade().ptr_eq(&peer.downgrade()));
}

#[test]
fn statistics_are_current_and_then_final() {
    let mut pair = Pair::new();
    let handle = pair.handle();
    let statistics = |pair: &mut Pair| {
        let handle = handle.clone();
        pair.get(async move { handle.statistics().await.unwrap() })
    };
    let first = statistics(&mut pair).datagrams_received;
    let exchange = pair.post();
    let second = statistics(&mut pair).datagrams_received;
    assert!(0 < first && first < second, "{first}, {second}");
    // The shard has discarded them with other state of an idle connection.
    drop(exchange);
    pair.world.run_for(SECOND * 20);
    assert!(statistics(&mut pair).datagrams_received >= second);
}

#[test]
fn a_connection_that_is_closed_fails_its_exchanges() {
    let mut pair = Pair::new();
    let Exchange { response, received, mut responder, request } = pair.post();
    let handle = pair.handle();
    let ended = pair.world.spawn(closed(handle.clone()));
    let error = pair.expect(1, response.response(), |_| handle.close(Code::EXCESSIVE_LOAD));
    assert!(error.unwrap_err().to_string().contains("H3_EXCESSIVE_LOAD"));
    assert!(matches!(ended.take().unwrap().1, Error::Closed));
    assert!(matches!(pair.get(async move { responder.cancelled().await }), Error::Closed));
    drop((request, received));
}

#[test]
fn a_drained_connection_completes_its_exchanges() {
    let mut pair = Pair::new();
    let Exchange { request, response, received, responder } = pair.post();
    let handle = pair.handle();
    let ended = pair.world.spawn(closed(handle.clone()));
    handle.drain();
    pair.world.run_for(SECOND);
    let refused = pair.client.open(Request::new(())).unwrap_err();
    assert!(refused.is_unprocessed(), "{refused}");
    assert!(ended.take().is_none(), "an exchange is in progress");
    drop(received);
    pair.world.spawn(request.finish());
    pair.world.spawn(responder.respond(Response::new(Body::full("content"))));
    let content =
        async move { response.response().await.unwrap().into_body().bytes(100).await.unwrap() };
    assert_eq!(pair.get(content), "content");
    pair.world.run_for(SECOND);
    assert!(matches!(ended.take().unwrap().1, Error::Closed));
}

#[test]
fn a_connection_is_drained_when_it_is_old() {
    const AGE: Duration = Duration::from_secs(10);
    let mut pair = Pair::aging(AGE);
    let exchange = pair.post();
    // It has been connected for a second.
    pair.world.run_for(AGE * 9 / 10 - 2 * SECOND);
    assert!(pair.client.is_open(), "the connection is too young");
    pair.world.run_for(AGE / 5 + 2 * SECOND);
    assert!(!pair.client.is_open());
    let ended = pair.world.spawn(closed(pair.handle()));
    pair.world.settle();
    assert!(ended.take().is_none(), "an exchange is in progress");
    drop(exchange);
    assert!(pair.world.wait(&ended, SECOND).is_some());
}

/// The bounds of the setting. A client can always make a first request.
#[test]
fn a_connection_can_be_drained_at_once_or_never() {
    let mut pair = Pair::aging(Duration::ZERO);
    let exchange = pair.post();
    assert!(!pair.client.is_open());
    drop(exchange);
    let mut pair = Pair::aging(Duration::MAX);
    let exchange = pair.post();
    assert!(pair.client.is_open());
    drop(exchange);
}

#[test]
fn the_maximum_age_can_change() {
    let mut pair = Pair::aging(5 * SECOND);
    let handle = pair.handle();
    for age in [None, Some(Duration::MAX)] {
        handle.set_max_age(age);
        pair.world.run_for(8 * SECOND);
        assert!(pair.client.is_open());
    }
    // The connection is already older.
    handle.set_max_age(Some(5 * SECOND));
    pair.world.run_for(SECOND);
    assert!(!pair.client.is_open());
}

/// Requests in early data have a handle before the handshake is complete.
#[test]
fn the_maximum_age_can_change_before_the_handshake_is_complete() {
    let server = Arc::<Accepting>::default();
    server.set_max_age(5 * SECOND);
    let (mut pair, connection) = Pair::begin(server);
    connection.lock().app.max_age = None;
    pair.world.run_for(8 * SECOND);
    assert!(pair.client.is_open());
}

#[test]
fn a_handle_has_no_effect_after_the_end() {
    let mut pair = Pair::new();
    let handle = pair.handle();
    drop(pair.post());
    drop(pair);
    handle.close(Code::NO_ERROR);
    handle.drain();
    handle.set_max_age(None);
    handle.spawn(async {});
    assert_eq!(handle.age(), Duration::ZERO);
    assert!(now_or_never(handle.statistics()).unwrap().is_none());
    assert!(now_or_never(handle.closed()).unwrap().is_none());
    assert_eq!(handle.peer().server_name(), Some("localhost"));
}

/// Returns the number of allocations for accepting a request that has arrived.
fn allocated_by_accepting(pair: &mut Pair, request: Request<Body>) -> u64 {
    let pending = pair.client.start(request).unwrap();
    pair.world.run_for(DELAY * 10);
    let server = pair.server.clone();
    let mut accepted = None;
    let used = allocation_counter::measure(|| {
        accepted = now_or_never(poll_fn(|context| server.poll_accept(context))).flatten();
    });
    let (request, _responder) = accepted.unwrap();
    assert!(Peer::of(&request).is_some());
    drop(pending);
    used.count_total
}

/// The extension of the client takes one allocation in a request that has other extensions, here
/// its priority. Otherwise, `http` also allocates its map and the map's table.
#[test]
fn the_client_of_a_request_takes_one_allocation_beside_other_extensions() {
    let mut pair = Pair::new();
    let request = || Request::get("https://localhost/");
    let first = request().body(Body::empty()).unwrap();
    allocated_by_accepting(&mut pair, first);
    let plain = request().body(Body::empty()).unwrap();
    let with_priority = request().extension(Priority::new(1, false)).body(Body::empty()).unwrap();
    assert_eq!(allocated_by_accepting(&mut pair, plain), 3);
    assert_eq!(allocated_by_accepting(&mut pair, with_priority), 1);
}
