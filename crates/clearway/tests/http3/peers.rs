//! Tests of what a server knows about its clients, and of its handles to their connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clearway::Endpoint;
use clearway::http3::{
    Client, Code, Config, Error, Handler, Peer, RequestStream, Server, serve_in_shard,
};
use http::{Request, Response};

use crate::support::{Pair, configs, get, loopback, run};

/// Describes a client.
fn describe(peer: &Peer) -> String {
    format!("{} {:?}", peer.remote_address(), peer.local_ip())
}

async fn described(client: &Client) -> String {
    let mut response = client.send(get("/")).await.unwrap();
    let content = response.body_mut().bytes(1000).await.unwrap();
    String::from_utf8(content.to_vec()).unwrap()
}

/// The server's description of a client changes with the client's address.
async fn the_address_follows_a_migration(server: SocketAddr, config: &clearway::ClientConfig) {
    let endpoint = Endpoint::client(loopback()).unwrap();
    let client = Client::connect(&endpoint, config, server, "localhost").await.unwrap();
    let expected =
        |remote: SocketAddr| format!("{remote} {:?}", Some(IpAddr::from(Ipv4Addr::LOCALHOST)));
    assert_eq!(described(&client).await, expected(endpoint.local_address()));
    let local = client.migrate(loopback()).await.unwrap();
    assert_ne!(local, endpoint.local_address());
    assert_eq!(described(&client).await, expected(local));
}

#[test]
fn tasks_know_the_current_address_of_a_client() {
    run(async {
        let pair = Pair::new();
        pair.serve(|request| async move { Response::new(describe(Peer::of(&request).unwrap())) });
        the_address_follows_a_migration(pair.address(), &pair.config).await;
    });
}

struct Describing;

impl Handler for Describing {
    fn request(&mut self, stream: &mut RequestStream<'_>, _: Request<()>) {
        assert_eq!(stream.peer().remote_address(), stream.remote_address());
        assert!(stream.statistics().datagrams_received > 0);
        let content = bytes::Bytes::from(describe(&stream.peer()));
        stream.respond(&Response::new(()), Some(Box::new(content))).unwrap();
    }
}

#[test]
fn a_handler_knows_the_current_address_of_a_client() {
    run(async {
        let (server, config) = configs(Default::default());
        let server = serve_in_shard(loopback(), server, Config::default(), |_| Describing).unwrap();
        the_address_follows_a_migration(server.local_address(), &config).await;
    });
}

#[test]
fn a_server_lists_its_connections() {
    run(async {
        let pair = Pair::new();
        pair.serve(|_| async { Response::new("content") });
        let clients = [pair.client().await, pair.client().await];
        for client in &clients {
            client.send(get("/")).await.unwrap();
        }
        let handles = pair.server.connections();
        let [first, second] = handles.as_slice() else { panic!("{handles:?}") };
        assert_ne!(first.stable_id(), second.stable_id());
        assert!(first.statistics().await.unwrap().datagrams_received > 0);
        assert!(first.age() < Duration::from_secs(20));
        first.close(Code::EXCESSIVE_LOAD);
        assert!(matches!(first.closed().await, Some(Error::Closed) | None));
        while pair.server.connections().len() > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let left = pair.server.connections();
        assert_eq!(left[0].stable_id(), second.stable_id());
        second.drain();
        while !pair.server.connections().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for client in clients {
            client.closed().await;
        }
    });
}

#[test]
fn connections_end_at_their_maximum_age() {
    run(async {
        let (config, client) = configs(Default::default());
        let server = Server::bind(loopback(), config).unwrap();
        let server = server.max_connection_age(Duration::from_millis(50));
        let endpoint = Endpoint::client(loopback()).unwrap();
        let client = Client::connect(&endpoint, &client, server.local_address(), "localhost");
        let client = client.await.unwrap();
        // A server waits a second for the first request of a client.
        let error = client.closed().await;
        assert!(error.to_string().contains("H3_NO_ERROR"), "{error}");
    });
}
