//! Servers with a certificate for localhost, clients that trust it, and queries.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use clearway::{ClientConfig, Connection, ConnectionError, Endpoint, ServerConfig};
use clearway_dns::hickory_proto::op::{Edns, Message, Query, ResponseCode};
use clearway_dns::hickory_proto::rr::rdata::A;
use clearway_dns::hickory_proto::rr::{Name, RData, Record, RecordType};
use clearway_dns::{Client, ErrorCode, Handler, PROTOCOL, Request, Server};

pub(crate) fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A certificate for localhost and its key.
pub(crate) struct Site {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Site {
    pub(crate) fn new() -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        Self { certificate: certified.cert.into(), key: key.into() }
    }

    pub(crate) fn server(&self) -> ServerConfig {
        ServerConfig::new(vec![self.certificate.clone()], self.key.clone_key())
            .application_protocols([PROTOCOL])
    }

    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    pub(crate) fn client(&self) -> ClientConfig {
        ClientConfig::with_roots(self.roots()).application_protocols([PROTOCOL])
    }

    /// Starts a DoQ server. Returns its endpoint.
    pub(crate) fn serve<H: Handler>(&self, server: &Server<H>) -> Endpoint {
        let config = self.server().transport(server.transport_config());
        let endpoint = Endpoint::server(loopback(), config).unwrap();
        let (server, serving) = (server.clone(), endpoint.clone());
        tokio::spawn(async move { server.serve_quic(&serving).await });
        endpoint
    }

    /// Connects a client to the server at `address`.
    pub(crate) async fn connect(&self, address: SocketAddr) -> Client {
        let endpoint = Endpoint::client(loopback()).unwrap();
        Client::connect(&endpoint, &self.client(), address, "localhost").await.unwrap()
    }

    /// Connects to the server at `address`, to send messages that [`Client`] never sends.
    pub(crate) async fn connect_raw(&self, address: SocketAddr) -> Connection {
        let endpoint = Endpoint::client(loopback()).unwrap();
        let connecting = endpoint.connect_with(&self.client(), address, "localhost").unwrap();
        connecting.await.unwrap()
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

/// Returns a query for the address of a name, with an OPT record.
pub(crate) fn query(text: &str) -> Message {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name(text), RecordType::A));
    let mut edns = Edns::new();
    edns.set_max_payload(1232);
    message.set_edns(edns);
    message
}

/// Returns `message` with the ID 0, as it is sent on a stream.
pub(crate) fn framed(mut message: Message) -> Vec<u8> {
    message.metadata.id = 0;
    let octets = message.to_vec().unwrap();
    [&(octets.len() as u16).to_be_bytes(), octets.as_slice()].concat()
}

/// Responds with 192.0.2.1, for 60 s.
pub(crate) fn address(request: &Request) -> Message {
    let mut response = request.response(ResponseCode::NoError);
    let queries = request.message().queries.clone();
    for query in queries {
        let data = RData::A(A(Ipv4Addr::new(192, 0, 2, 1)));
        response.add_answer(Record::from_rdata(query.name().clone(), 60, data));
    }
    response
}

/// Returns the error code with which the peer closes a connection.
pub(crate) async fn closed_with(connection: &Connection) -> ErrorCode {
    match connection.closed().await {
        ConnectionError::ApplicationClosed { error_code, .. } => error_code.into(),
        error => panic!("{error}"),
    }
}

/// Sends octets and the end of a stream.
pub(crate) async fn send(connection: &Connection, octets: Vec<u8>) -> clearway::RecvStream {
    let (mut send, recv) = connection.open_bi().await.unwrap();
    send.finish_with(Bytes::from(octets)).await.unwrap();
    recv
}
