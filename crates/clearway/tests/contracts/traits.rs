//! Tests that user-provided code may panic, block the shard for a second, or fail: unrelated
//! connections survive, and the endpoint still serves new clients afterward.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use clearway::congestion::{
    Acknowledgement, Algorithm, CongestionResponse, Controller, ControllerFactory,
    ControllerParameters, RttSnapshot, SentPacket, Snapshot, SpuriousLoss,
};
use clearway::rustls::RootCertStore;
use clearway::rustls::crypto::aws_lc_rs;
use clearway::rustls::server::ClientHello;
use clearway::rustls::sign::{CertifiedKey, SingleCertAndKey};
use clearway::transport::{
    ConnectionVersions, Incoming, ServerSessions, Session, SessionError, TlsServerConfig,
    TlsServerSettings,
};
use clearway::{
    Accept, Acceptor, Application, CertificateResolver, ClientConfig, Connection, Decision,
    Endpoint, Event, Identity, Observation, Observer, Rate, SavedSession, ServerConfig,
    SessionStore, Side, Timestamp, TransportConfig, VarInt, Version,
};

use crate::support::{PROTOCOL, identity, loopback, run};

/// The behavior of application code when it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Conduct {
    Panic,
    Block,
    /// The code returns an error, or `None`.
    Fail,
}

const ALL: [Conduct; 3] = [Conduct::Panic, Conduct::Block, Conduct::Fail];

/// The configured behavior of application code, and how many more times it misbehaves.
#[derive(Debug)]
struct Unruly {
    conduct: Conduct,
    left: AtomicU32,
}

impl Unruly {
    fn new(conduct: Conduct) -> Arc<Self> {
        Arc::new(Self { conduct, left: AtomicU32::new(0) })
    }

    /// Makes the code misbehave in its next `times` calls.
    fn arm(&self, times: u32) {
        self.left.store(times, Ordering::SeqCst);
    }

    fn has_misbehaved(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    /// Returns whether the code must fail.
    fn fails(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err() {
            return false;
        }
        match self.conduct {
            Conduct::Panic => panic!("this panic is intended"),
            Conduct::Block => thread::sleep(Duration::from_secs(1)),
            Conduct::Fail => {}
        }
        self.conduct == Conduct::Fail
    }
}

struct Observing(Arc<Unruly>);

impl Observer for Observing {
    fn observe(&mut self, _: Timestamp, _: &Observation<'_>) {
        self.0.fails();
    }
}

#[derive(Debug)]
struct Resolver(Arc<Unruly>, Identity);

impl CertificateResolver for Resolver {
    fn resolve(&self, _: &ClientHello<'_>) -> Option<Identity> {
        (!self.0.fails()).then(|| self.1.clone())
    }
}

#[derive(Debug)]
struct Factory(Arc<Unruly>);

impl ControllerFactory for Factory {
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller> {
        self.0.fails();
        Algorithm::default().build(parameters)
    }
}

/// Creates controllers that misbehave in one of their methods.
#[derive(Debug)]
struct Unreliable(Arc<Unruly>, Method);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    OnSent,
    OnAcknowledgement,
    Window,
    Snapshot,
}

#[derive(Debug)]
struct UnreliableController(Arc<Unruly>, Method, Box<dyn Controller>);

impl ControllerFactory for Unreliable {
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller> {
        let inner = Algorithm::default().build(parameters);
        Box::new(UnreliableController(self.0.clone(), self.1, inner))
    }
}

impl UnreliableController {
    fn calls(&self, method: Method) {
        if self.1 == method {
            self.0.fails();
        }
    }
}

impl Controller for UnreliableController {
    fn name(&self) -> &'static str {
        "unreliable"
    }

    fn on_sent(&mut self, packet: &SentPacket, bytes_in_flight: u64) {
        self.calls(Method::OnSent);
        self.2.on_sent(packet, bytes_in_flight);
    }

    fn on_acknowledgement(&mut self, event: &Acknowledgement<'_>) -> CongestionResponse {
        self.calls(Method::OnAcknowledgement);
        self.2.on_acknowledgement(event)
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        self.2.on_spurious_loss(event);
    }

    fn on_max_datagram_size(&mut self, max_datagram_size: u64) {
        self.2.on_max_datagram_size(max_datagram_size);
    }

    fn window(&self) -> u64 {
        self.calls(Method::Window);
        self.2.window()
    }

    fn pacing_rate(&self, rtt: Option<&RttSnapshot>) -> Option<Rate> {
        self.2.pacing_rate(rtt)
    }

    fn snapshot(&self) -> Snapshot {
        self.calls(Method::Snapshot);
        self.2.snapshot()
    }
}

#[derive(Debug)]
struct Store(Arc<Unruly>);

impl SessionStore for Store {
    fn put_session(&self, _: &str, _: SavedSession) {
        self.0.fails();
    }

    fn take_session(&self, _: &str, _: Version) -> Option<SavedSession> {
        self.0.fails();
        None
    }

    fn put_token(&self, _: &str, _: &[u8]) {
        self.0.fails();
    }

    fn take_token(&self, _: &str) -> Option<Vec<u8>> {
        self.0.fails();
        None
    }
}

#[derive(Debug)]
struct Sessions(Arc<Unruly>, Arc<TlsServerConfig>);

impl ServerSessions for Sessions {
    fn accept(
        self: Arc<Self>,
        versions: ConnectionVersions,
        parameters: Vec<u8>,
    ) -> Result<Box<dyn Session>, SessionError> {
        if self.0.fails() {
            return Err(SessionError::NoApplicationProtocol);
        }
        self.1.clone().accept(versions, parameters)
    }
}

/// The outcome for the connection for which application code was called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Victim {
    Lives,
    Ends,
}

/// A server, a client, and an unrelated connection between them.
struct World {
    server: Endpoint,
    client: Endpoint,
    config: ClientConfig,
    bystander: (Connection, Connection),
}

impl World {
    async fn new(server: ServerConfig, config: ClientConfig) -> Self {
        let server = Endpoint::server(loopback(), server).unwrap();
        let client = Endpoint::client(loopback()).unwrap();
        let bystander = connect(&server, &client, &config).await.expect("nothing misbehaves yet");
        Self { server, client, config, bystander }
    }

    /// Connects, exchanges data and closes.
    async fn visit(&self) -> Result<(), String> {
        let (client, server) = connect(&self.server, &self.client, &self.config).await?;
        exchange(&client, &server).await
    }

    /// Checks that both ends of the unrelated connection still work, that the endpoints serve new
    /// connections, and that panics are counted.
    async fn check(&self, name: &str, unruly: &Unruly) {
        assert!(unruly.has_misbehaved(), "{name}: the code was not called");
        // A connection whose client is gone may still be waiting to be accepted.
        while let Ok(Some(left)) =
            tokio::time::timeout(Duration::from_millis(1), self.server.accept()).await
        {
            drop(left);
        }
        let (client, server) = &self.bystander;
        exchange(client, server).await.unwrap_or_else(|error| panic!("{name}: bystander: {error}"));
        self.visit().await.unwrap_or_else(|error| panic!("{name}: a new client: {error}"));
        let panics = self.server.statistics().panics + self.client.statistics().panics;
        match unruly.conduct {
            Conduct::Panic => assert!(panics > 0, "{name}: nothing was counted"),
            _ => assert_eq!(panics, 0, "{name}"),
        }
        assert_eq!(self.server.statistics().shards_failed, 0);
        assert_eq!((self.server.failure(), self.client.failure()), (None, None));
    }
}

async fn connect(
    server: &Endpoint,
    client: &Endpoint,
    config: &ClientConfig,
) -> Result<(Connection, Connection), String> {
    let connecting = client
        .connect_with(config, server.local_address(), "localhost")
        .map_err(|error| error.to_string())?;
    let accepting = async { server.accept().await.expect("the server is open").await };
    tokio::pin!(connecting, accepting);
    // If the client fails, there may be no connection on the server.
    let (client, server) = tokio::select! {
        biased;
        client = &mut connecting => {
            let client = client.map_err(|error| error.to_string())?;
            (client, accepting.await)
        }
        server = &mut accepting => (connecting.await.map_err(|error| error.to_string())?, server),
    };
    Ok((client, server.map_err(|error| error.to_string())?))
}

/// Sends data in both directions.
async fn exchange(client: &Connection, server: &Connection) -> Result<(), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let (mut send, mut receive) = client.open_bi().await.map_err(|error| text(&error))?;
    let answer = async {
        let (mut send, mut receive) = server.accept_bi().await.map_err(|error| text(&error))?;
        let received = receive.read_to_end(100_000).await.map_err(|error| text(&error))?;
        send.write_all(&received).await.map_err(|error| text(&error))?;
        send.finish().map_err(|error| text(&error))
    };
    let ask = async {
        send.write_all(&[7; 30_000]).await.map_err(|error| text(&error))?;
        send.finish().map_err(|error| text(&error))?;
        let received = receive.read_to_end(100_000).await.map_err(|error| text(&error))?;
        assert_eq!(received, [7; 30_000]);
        Ok(())
    };
    tokio::try_join!(answer, ask).map(|_| ())
}

fn configs() -> (ServerConfig, ClientConfig, Identity) {
    let own = identity();
    let client = trusting(&own);
    let shown = Identity::from_der(vec![own.certificate.clone()], own.key.clone_key()).unwrap();
    let server =
        ServerConfig::new(vec![own.certificate], own.key).application_protocols([PROTOCOL]);
    (server, client, shown)
}

fn trusting(server: &crate::support::Identity) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(server.certificate.clone()).unwrap();
    ClientConfig::with_roots(roots).application_protocols([PROTOCOL])
}

fn with_controller(factory: impl ControllerFactory + 'static) -> TransportConfig {
    TransportConfig::builder().controller(Arc::new(factory)).build().unwrap()
}

/// Makes the code misbehave for one of several connections.
async fn misbehave(
    name: &str,
    conduct: Conduct,
    adapt: impl FnOnce(
        &Arc<Unruly>,
        ServerConfig,
        ClientConfig,
        Identity,
    ) -> (ServerConfig, ClientConfig),
    victim: Victim,
) {
    let name = &format!("{name}, {conduct:?}");
    let unruly = Unruly::new(conduct);
    let (server, client, shown) = configs();
    let (server, client) = adapt(&unruly, server, client, shown);
    let world = World::new(server, client).await;
    unruly.arm(1);
    let outcome = tokio::time::timeout(Duration::from_secs(8), world.visit()).await;
    match victim {
        Victim::Lives => assert_eq!(outcome, Ok(Ok(())), "{name}"),
        Victim::Ends => assert!(matches!(outcome, Ok(Err(_))), "{name}: {outcome:?}"),
    }
    world.check(name, &unruly).await;
}

/// Runs a test for each behavior.
fn for_all(test: impl AsyncFn(Conduct)) {
    for conduct in ALL {
        run(test(conduct));
    }
}

/// Returns the outcome for code with this behavior: its connection ends if the behavior is in
/// `ending`.
fn ends_if(conduct: Conduct, ending: &[Conduct]) -> Victim {
    if ending.contains(&conduct) { Victim::Ends } else { Victim::Lives }
}

#[test]
fn an_observer_that_panics_is_dropped_and_its_connection_goes_on() {
    for_all(async |conduct| {
        for side in [Side::Server, Side::Client] {
            let adapt = |unruly: &Arc<Unruly>, server: ServerConfig, client: ClientConfig, _| {
                let unruly = unruly.clone();
                let factory = Arc::new(move |_: Side| {
                    Some(Box::new(Observing(unruly.clone())) as Box<dyn Observer>)
                });
                match side {
                    Side::Server => (server.observer(factory), client),
                    Side::Client => (server, client.observer(factory)),
                }
            };
            misbehave("an observer", conduct, adapt, Victim::Lives).await;
        }
    });
}

#[test]
fn an_observer_factory_that_panics_makes_no_observer() {
    for_all(async |conduct| {
        let adapt = |unruly: &Arc<Unruly>, server: ServerConfig, client: ClientConfig, _| {
            let unruly = unruly.clone();
            let factory = Arc::new(move |_: Side| {
                unruly.fails();
                None
            });
            (server.observer(factory), client)
        };
        misbehave("an observer factory", conduct, adapt, Victim::Lives).await;
    });
}

#[test]
fn a_certificate_resolver_that_panics_fails_its_handshake() {
    for_all(async |conduct| {
        let adapt = |unruly: &Arc<Unruly>, _, client: ClientConfig, shown| {
            let resolver = Resolver(unruly.clone(), shown);
            let server = ServerConfig::with_resolver(Arc::new(resolver));
            (server.application_protocols([PROTOCOL]), client)
        };
        let victim = ends_if(conduct, &[Conduct::Panic, Conduct::Fail]);
        misbehave("a resolver", conduct, adapt, victim).await;
    });
}

#[test]
fn a_controller_factory_that_panics_ends_its_connection() {
    for_all(async |conduct| {
        for side in [Side::Server, Side::Client] {
            let adapt = |unruly: &Arc<Unruly>, server: ServerConfig, client: ClientConfig, _| {
                let transport = with_controller(Factory(unruly.clone()));
                match side {
                    Side::Server => (server.transport(transport), client),
                    Side::Client => (server, client.transport(transport)),
                }
            };
            let victim = ends_if(conduct, &[Conduct::Panic]);
            misbehave("a controller factory", conduct, adapt, victim).await;
        }
    });
}

#[test]
fn a_controller_that_panics_ends_its_connection() {
    let methods = [Method::OnSent, Method::OnAcknowledgement, Method::Window, Method::Snapshot];
    for method in methods {
        for side in [Side::Server, Side::Client] {
            run(async {
                let unruly = Unruly::new(Conduct::Panic);
                let (server, client, _) = configs();
                let transport = with_controller(Unreliable(unruly.clone(), method));
                let (server, client) = match side {
                    Side::Server => (server.transport(transport), client),
                    Side::Client => (server, client.transport(transport)),
                };
                let world = World::new(server, client).await;
                let victim = connect(&world.server, &world.client, &world.config).await.unwrap();
                unruly.arm(1);
                let (client, server) = victim;
                // Both ends are notified that the connection has ended.
                let _ =
                    tokio::time::timeout(Duration::from_secs(2), exchange(&client, &server)).await;
                let ends = async { tokio::join!(client.closed(), server.closed()) };
                let ended = tokio::time::timeout(Duration::from_secs(5), ends).await;
                let name = format!("a controller in {method:?} at the {side:?}");
                let (client, server) = ended.unwrap_or_else(|_| panic!("{name}: it has not ended"));
                let both = format!("{client}; {server}");
                assert_eq!(both.matches("INTERNAL_ERROR").count(), 2, "{name}: {both}");
                // The unrelated connection has the same kind of controller.
                world.check(&name, &unruly).await;
            });
        }
    }
}

#[test]
fn a_session_store_that_panics_loses_a_session_only() {
    for_all(async |conduct| {
        for calls in 1..=4 {
            let name = &format!("a session store, {conduct:?}, {calls} calls");
            let unruly = Unruly::new(conduct);
            let (server, client, _) = configs();
            let client = client.session_store(Arc::new(Store(unruly.clone())));
            let world = World::new(server, client).await;
            unruly.arm(calls);
            world.visit().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            while !unruly.has_misbehaved() {
                world.visit().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            world.check(name, &unruly).await;
        }
    });
}

#[test]
fn tls_sessions_that_panic_end_their_connection() {
    for_all(async |conduct| {
        let adapt = |unruly: &Arc<Unruly>, _, _, _| {
            let own = identity();
            let client = trusting(&own);
            let key = aws_lc_rs::sign::any_supported_type(&own.key).unwrap();
            let shown = SingleCertAndKey::from(CertifiedKey::new(vec![own.certificate], key));
            let settings = TlsServerSettings::new(Arc::new(shown), &[PROTOCOL.as_bytes()]);
            let tls = Arc::new(TlsServerConfig::from_settings(settings).unwrap());
            (ServerConfig::with_sessions(Arc::new(Sessions(unruly.clone(), tls))), client)
        };
        // The server does not respond if a TLS session fails to start.
        if conduct != Conduct::Fail {
            let victim = ends_if(conduct, &[Conduct::Panic]);
            misbehave("sessions", conduct, adapt, victim).await;
        }
    });
}

/// Accepts clients, unless it misbehaves.
struct Clients {
    acceptor: Arc<Unruly>,
    application: Arc<Unruly>,
}

impl Acceptor for Clients {
    fn incoming(&mut self, _: &Incoming) -> Decision {
        if self.acceptor.fails() {
            return Decision::Refuse;
        }
        let application = Serving(self.application.clone());
        Decision::Accept(Accept::new(Box::new(|_| Box::new(application))))
    }
}

/// Misbehaves when the client opens a stream.
struct Serving(Arc<Unruly>);

impl Application for Serving {
    fn process(&mut self, now: Timestamp, connection: &mut clearway::transport::Connection) {
        while let Some(event) = connection.next_event() {
            if matches!(event, Event::Opened(_)) && self.0.fails() {
                connection.close(now, VarInt::from_u32(7), b"it fails");
            }
        }
    }
}

/// Sends data, and waits until the peer has received it.
async fn send(client: &Connection) -> bool {
    let sending = async {
        let mut stream = client.open_uni().await.ok()?;
        stream.write_all(&[7; 30_000]).await.ok()?;
        stream.finish().ok()?;
        stream.stopped().await.ok()
    };
    let sent = tokio::time::timeout(Duration::from_secs(5), sending).await;
    sent.expect("the connection neither works nor ends") == Some(None)
}

#[test]
fn an_acceptor_and_an_application_that_panic_concern_one_client() {
    for_all(async |conduct| {
        let unruly = [Unruly::new(conduct), Unruly::new(conduct)];
        let [acceptor, application] = unruly.clone();
        let (server, config, _) = configs();
        let clients = |_| Clients { acceptor: acceptor.clone(), application: application.clone() };
        let server = Endpoint::server_with_applications(loopback(), server, clients).unwrap();
        let client = Endpoint::client(loopback()).unwrap();
        let connect = || client.connect_with(&config, server.local_address(), "localhost").unwrap();
        let bystander = connect().await.unwrap();
        let goes_on = conduct == Conduct::Block;

        // A ClientHello that takes two datagrams may require two decisions of the acceptor.
        acceptor.arm(if goes_on { 1 } else { 2 });
        assert_eq!(connect().await.is_ok(), goes_on, "an acceptor, {conduct:?}");
        acceptor.arm(0);
        assert!(send(&bystander).await, "an acceptor, {conduct:?}");

        let victim = connect().await.unwrap();
        application.arm(1);
        let has_sent = send(&victim).await;
        assert!(application.has_misbehaved());
        if !goes_on {
            // The data may have arrived before the end.
            let reason = victim.closed().await.to_string();
            let wanted = if conduct == Conduct::Panic { "INTERNAL_ERROR" } else { "it fails" };
            assert!(reason.contains(wanted), "{conduct:?}: {reason}");
        } else {
            assert!(has_sent);
        }
        assert!(send(&bystander).await && send(&connect().await.unwrap()).await);
        assert_eq!(server.statistics().panics > 0, conduct == Conduct::Panic);
        assert_eq!(server.failure(), None);
    });
}
