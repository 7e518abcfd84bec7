//! Connections that begin with early data (RFC 9001 §4.6).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use clearway_network::LinkConfig;
use clearway_transport::{
    ClientConfig, EarlyData, Event, ReadOutcome, SavedSession, ServerConfig, SessionStore,
    TlsServerConfig, TransportConfig,
};
use clearway_units::Timestamp;
use clearway_wire::{Direction, StreamId, Version};

use super::{Pair, Tls, pattern, quiet, tls_for};

/// Returns TLS settings with which clients offer early data and servers accept it. Each call uses
/// different ticket keys.
pub fn early_tls() -> Tls {
    early_tls_with(|tls| tls)
}

/// Returns the same kind of TLS settings, but with a ClientHello that needs two datagrams.
pub fn long_early_tls() -> Tls {
    let mut tls = early_tls();
    tls.protocols.extend((0..5).map(|number| vec![b'a' + number; 250]));
    tls
}

pub fn early_tls_with(change: impl FnOnce(TlsServerConfig) -> TlsServerConfig) -> Tls {
    let mut tls = tls_for(vec!["localhost".into()]);
    let server = Arc::unwrap_or_clone(tls.server).early_data(true);
    tls.server = Arc::new(change(server));
    tls.offers_early_data = true;
    tls
}

/// The outcome of a connection's requests.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The time from the start of the connection until all responses had arrived.
    pub answered: Option<Duration>,
    /// The time from the start of the connection until the server had the first complete request.
    pub served: Option<Duration>,
    /// The number of requests that the server has seen, and how many of these could have been
    /// replays at that time.
    pub requests: usize,
    pub early_requests: usize,
}

impl Pair {
    /// Creates a pair with a session from an earlier connection, over which bytes were transferred.
    pub fn with_session(link: LinkConfig) -> Self {
        Self::with_session_and(link, quiet(), quiet())
    }

    pub fn with_session_and(
        link: LinkConfig,
        client: TransportConfig,
        server: TransportConfig,
    ) -> Self {
        Self::with_session_of(link, client, server, &early_tls())
    }

    pub fn with_session_of(
        link: LinkConfig,
        client: TransportConfig,
        server: TransportConfig,
        tls: &Tls,
    ) -> Self {
        let mut pair = Self::with_tls(link, client, server, tls);
        assert!(pair.download(1000, Duration::from_secs(100)).is_some());
        // The session tickets may have been lost and have to be retransmitted.
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.client().early_data(), EarlyData::None);
        pair
    }

    /// Changes the server's transport settings from this point on.
    pub fn change_server(&mut self, transport: TransportConfig) {
        let config =
            ServerConfig { transport: Arc::new(transport), ..(*self.server_config).clone() };
        self.server_config = Arc::new(config);
        self.server.set_server(Some(self.server_config.clone()));
    }

    /// Changes the server's TLS settings from this point on.
    pub fn change_server_tls(&mut self, tls: &Tls) {
        let config = ServerConfig { sessions: tls.server.clone(), ..(*self.server_config).clone() };
        self.server_config = Arc::new(config);
        self.server.set_server(Some(self.server_config.clone()));
    }

    /// Makes the client use the TLS settings of `tls` from this point on, without a session.
    pub fn change_client_tls(&mut self, tls: &Tls) {
        self.client_config = ClientConfig { sessions: tls.client(), ..self.client_config.clone() };
    }

    /// Begins another connection, on which the client immediately sends `requests` of `size` bytes.
    pub fn begin_early(&mut self, requests: usize, size: usize) -> Vec<StreamId> {
        self.reconnect(Vec::new());
        (0..requests)
            .map(|_| {
                let stream = self.client().open(Direction::Bidirectional).unwrap();
                assert_eq!(self.client().write(stream, pattern(size)), Ok(size));
                self.client().finish(stream).unwrap();
                stream
            })
            .collect()
    }

    /// Runs until every request is answered with `size` bytes.
    pub fn answer_all(
        &mut self,
        streams: &[StreamId],
        request: usize,
        answer: usize,
        limit: Duration,
    ) -> Outcome {
        let start = self.now;
        let mut outcome = Outcome::default();
        let mut requests: BTreeMap<StreamId, (Vec<u8>, Option<Bytes>)> = BTreeMap::new();
        let mut open: Vec<StreamId> = streams.to_vec();
        let mut answers: BTreeMap<StreamId, Vec<u8>> = BTreeMap::new();
        let done = self.run_until(limit, |pair| {
            pair.serve(start, &mut requests, request, answer, &mut outcome);
            open.retain(|stream| !pair.read_all(*stream, answers.entry(*stream).or_default()));
            open.is_empty()
        });
        for received in answers.values().filter(|_| done) {
            assert_eq!(*received, pattern(answer));
        }
        outcome.answered = done.then(|| self.now.saturating_since(start));
        outcome
    }

    fn serve(
        &mut self,
        start: Timestamp,
        requests: &mut BTreeMap<StreamId, (Vec<u8>, Option<Bytes>)>,
        request: usize,
        answer: usize,
        outcome: &mut Outcome,
    ) {
        if self.accepted.is_empty() {
            return;
        }
        while let Some(stream) = self.server().accept(Direction::Bidirectional) {
            requests.insert(stream, (Vec::new(), None));
            outcome.requests += 1;
        }
        let now = self.now;
        for (stream, (received, rest)) in requests.iter_mut() {
            loop {
                match self.server().read(now, *stream, usize::MAX) {
                    Ok(ReadOutcome::Data(data)) => received.extend_from_slice(&data),
                    Ok(ReadOutcome::Finished) if rest.is_none() => {
                        assert_eq!(*received, pattern(request));
                        outcome.early_requests += usize::from(self.server().is_early(*stream));
                        outcome.served.get_or_insert(now.saturating_since(start));
                        *rest = Some(pattern(answer));
                    }
                    _ => break,
                }
            }
            if let Some(rest) = rest {
                self.write_rest(*stream, rest);
            }
        }
    }

    /// Returns whether the server has accepted the early data of this connection.
    pub fn is_accepted(&self) -> bool {
        let accepted = self.client_events.contains(&Event::EarlyDataAccepted);
        assert!(!(accepted && self.client_events.contains(&Event::EarlyDataRejected)));
        accepted
    }
}

/// A session store that serializes its sessions to bytes.
#[derive(Debug, Default)]
pub struct ByteStore {
    pub sessions: Mutex<Vec<(String, Vec<u8>)>>,
}

impl SessionStore for ByteStore {
    fn put_session(&self, server_name: &str, session: SavedSession) {
        self.sessions.lock().unwrap().push((server_name.to_owned(), session.encode()));
    }

    fn take_session(&self, server_name: &str, version: Version) -> Option<SavedSession> {
        let mut sessions = self.sessions.lock().unwrap();
        let place = sessions.iter().rposition(|(name, bytes)| {
            name == server_name && SavedSession::decode(bytes).unwrap().version() == version
        })?;
        SavedSession::decode(&sessions.remove(place).1).ok()
    }

    fn put_token(&self, _: &str, _: &[u8]) {}

    fn take_token(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

impl Pair {
    /// Makes the client keep its sessions in `store` from now on, as another process would.
    pub fn store_sessions(&mut self, tls: &Tls, store: &Arc<ByteStore>) {
        let sessions = Arc::unwrap_or_clone(tls.client()).session_store(store.clone());
        self.client_config =
            ClientConfig { sessions: Arc::new(sessions), ..self.client_config.clone() };
    }
}
