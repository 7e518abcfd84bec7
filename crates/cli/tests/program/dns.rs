//! Tests `dns`: queries over each protocol, early data, failover, and shutdown.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as StdUdpSocket};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::CertificateDer;
use clearway::rustls::pki_types::pem::PemObject;
use clearway::{ClientConfig, ConnectionError, Endpoint, SavedSession, SessionStore, Version};
use clearway_dns::hickory_proto::op::{Message, Query, ResponseCode};
use clearway_dns::hickory_proto::rr::rdata::A;
use clearway_dns::hickory_proto::rr::{Name, RData, Record, RecordType};
use clearway_dns::{Client, ErrorCode, Request, Server};
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use crate::support::{Running, Scratch, clearway, fail};

fn query() -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii("www.example.").unwrap(), RecordType::A));
    message
}

/// Starts a server that responds with an address.
async fn upstream() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let respond = |request: Request| async move {
            let mut response = request.response(ResponseCode::NoError);
            let name = request.message().queries[0].name().clone();
            let data = RData::A(A(Ipv4Addr::new(192, 0, 2, 1)));
            response.add_answer(Record::from_rdata(name, 60, data));
            response
        };
        Server::new(respond).serve_udp(socket).await
    });
    address
}

/// Returns an address at which nobody listens.
fn nobody() -> SocketAddr {
    StdUdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Starts `dns`, which saves its certificate in `scratch` as `cert.pem`.
fn start(scratch: &Scratch, options: &[&str]) -> Running {
    let certificate = scratch.path("cert.pem");
    let mut command = clearway(&["dns", "--listen", "127.0.0.1:0", "--save-cert", &certificate]);
    command.args(options).stderr(Stdio::null());
    Running::printing("listening on quic://", command)
}

/// Returns a configuration that trusts the certificate in `scratch`.
fn trusting(scratch: &Scratch) -> ClientConfig {
    let pem = fs::read(scratch.path("cert.pem")).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    ClientConfig::with_roots(roots)
}

async fn connect(config: &ClientConfig, address: &str) -> Client {
    let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = address.parse().unwrap();
    Client::connect(&endpoint, config, address, "localhost").await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_are_forwarded_and_the_next_upstream_is_used() {
    let scratch = Scratch::new("dns");
    let (dead, alive) = (format!("tcp://{}", nobody()), format!("udp://{}", upstream().await));
    let options = ["--listen-udp", "127.0.0.1:0", "--upstream", &dead, "--upstream", &alive];
    let running = start(&scratch, &options);
    let client = connect(&trusting(&scratch), &running.address).await;
    for _ in 0..2 {
        assert_eq!(client.query(query()).await.unwrap().answers.len(), 1);
    }
    let output = tokio::task::spawn_blocking(|| running.interrupt()).await.unwrap();
    assert!(output.contains("listening on udp://127.0.0.1:"), "{output}");
    assert!(output.contains(&format!("upstream {dead} is down: cannot connect")), "{output}");
    match client.closed().await {
        ConnectionError::ApplicationClosed { error_code, .. } => {
            assert_eq!(ErrorCode::from(error_code), ErrorCode::NoError);
        }
        error => panic!("{error}"),
    }
}

/// Stores the last session.
#[derive(Debug, Default)]
struct Store {
    session: Mutex<Option<SavedSession>>,
    arrived: Notify,
}

impl SessionStore for Store {
    fn put_session(&self, _: &str, session: SavedSession) {
        *self.session.lock().unwrap() = Some(session);
        self.arrived.notify_one();
    }

    fn take_session(&self, _: &str, _: Version) -> Option<SavedSession> {
        self.session.lock().unwrap().take()
    }

    fn put_token(&self, _: &str, _: &[u8]) {}

    fn take_token(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn early_data_is_accepted_unless_an_option_turns_it_off() {
    let upstream = format!("udp://{}", upstream().await);
    for (option, is_accepted) in [(None, true), (Some("--no-early-data"), false)] {
        let scratch = Scratch::new(&format!("dns-early-{is_accepted}"));
        let options: Vec<_> = ["--upstream", &upstream].into_iter().chain(option).collect();
        let running = start(&scratch, &options);
        let store = Arc::new(Store::default());
        let config = trusting(&scratch).early_data(true).session_store(store.clone());
        for expected in [false, is_accepted] {
            let client = connect(&config, &running.address).await;
            assert_eq!(client.query(query()).await.unwrap().answers.len(), 1);
            assert_eq!(client.connection().early_data_accepted().await, expected);
            store.arrived.notified().await;
        }
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let socket = StdUdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = socket.local_addr().unwrap().to_string();
    let upstream = ["dns", "--listen", "127.0.0.1:0", "--upstream", "udp://192.0.2.1"];
    let error = fail(&[&upstream[..], &["--listen-udp", &taken]].concat());
    assert!(error.contains("cannot listen on UDP") && error.contains("--listen-udp"), "{error}");
    let error = fail(&["dns", "--listen", "127.0.0.1:53", "--upstream", "udp://192.0.2.1"]);
    assert!(error.contains("must not use port 53"), "{error}");
    let error = fail(&[&upstream[..], &["--ca", "/nonexistent"]].concat());
    assert!(error.contains("/nonexistent"), "{error}");
}
