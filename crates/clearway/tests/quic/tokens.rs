//! Tests of address validation tokens from servers that share keys, on loopback.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Pair, loopback, run};
use clearway::wire::TransportErrorCode;
use clearway::{
    ConnectError, ConnectionError, Endpoint, Observation, Observer, ServerConfig, Side, TicketKeys,
    Timestamp, TransportConfig,
};

/// Records whether the client's connection went through a Retry, which the server then states in
/// its transport parameters.
struct RetryWatch(Arc<AtomicBool>);

impl Observer for RetryWatch {
    fn observe(&mut self, _now: Timestamp, observation: &Observation<'_>) {
        if let Observation::ParametersSet { parameters, .. } = observation
            && parameters.retry_source_connection_id.is_some()
        {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

/// Returns a new server that validates every address, like a server in another process.
fn process(secret: u8) -> Pair {
    let keys = TicketKeys::new(&[secret; 32]);
    let configure = |server: ServerConfig| server.retry_above(0).ticket_keys(keys);
    Pair::with(TransportConfig::default(), configure)
}

/// Connects with a token, if there is one. Returns whether there was a Retry, and the token for the
/// next connection.
async fn connect(pair: &mut Pair, token: &[u8]) -> (bool, Vec<u8>) {
    let was_retried = Arc::new(AtomicBool::new(false));
    let noted = was_retried.clone();
    let observer = move |_: Side| Some(Box::new(RetryWatch(noted.clone())) as Box<dyn Observer>);
    pair.config = pair.config.clone().observer(Arc::new(observer)).token(token);
    let (client, server) = pair.connect().await;
    // Data that the server sends after the handshake arrives after NEW_TOKEN, or together with it.
    server.open_uni().await.unwrap().finish().unwrap();
    client.accept_uni().await.unwrap();
    let token = loop {
        match client.new_token() {
            Some(token) => break token.to_vec(),
            None => tokio::task::yield_now().await,
        }
    };
    (was_retried.load(Ordering::SeqCst), token)
}

#[test]
fn servers_with_the_same_keys_accept_each_others_tokens() {
    run(async {
        let (was_retried, token) = connect(&mut process(1), &[]).await;
        assert!(was_retried, "the address is not known");
        let (was_retried, another) = connect(&mut process(1), &token).await;
        assert!(!was_retried, "another process with the same keys");
        assert_ne!(another, token);
        let (was_retried, _) = connect(&mut process(2), &token).await;
        assert!(was_retried, "another process with other keys");
    });
}

/// Clients with other ports reach other shards.
#[test]
fn a_token_is_valid_at_every_shard() {
    run(async {
        let shards = NonZeroUsize::new(3).unwrap();
        let mut pair = Pair::with(TransportConfig::default(), |server: ServerConfig| {
            server.retry_above(0).shards(shards)
        });
        let (was_retried, token) = connect(&mut pair, &[]).await;
        assert!(was_retried, "the address is not known");
        while pair.server.shard_statistics().iter().any(|shard| shard.datagrams_sent == 0) {
            pair.client = Endpoint::client(loopback()).unwrap();
            assert!(!connect(&mut pair, &token).await.0, "a token of another shard");
        }
    });
}

#[test]
fn tokens_expire_after_their_lifetime() {
    run(async {
        // A client that was validated an instant ago has to be validated again.
        let mut pair = Pair::with(TransportConfig::default(), |server: ServerConfig| {
            server.retry_above(0).address_token_lifetime(Duration::ZERO)
        });
        let (_, token) = connect(&mut pair, &[]).await;
        assert!(connect(&mut pair, &token).await.0, "the token has expired");

        // No client can answer a Retry in time.
        let pair = Pair::with(TransportConfig::default(), |server: ServerConfig| {
            server.retry_above(0).retry_token_lifetime(Duration::ZERO)
        });
        let error = pair.connecting().await.unwrap_err();
        let ConnectError::Lost(ConnectionError::ConnectionClosed { error_code, .. }) = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!(*error_code, TransportErrorCode::INVALID_TOKEN);
    });
}
