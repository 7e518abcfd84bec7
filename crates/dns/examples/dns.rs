//! A DNS over QUIC server for one zone, and a client that queries it.
//!
//!     cargo run -p clearway-dns --example dns

use std::collections::HashMap;
use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Endpoint, ServerConfig};
use clearway_dns::hickory_proto::op::{Message, Query, ResponseCode};
use clearway_dns::hickory_proto::rr::{Name, RData, Record, RecordType};
use clearway_dns::{Client, ErrorInfo, ExtendedError, PROTOCOL, Request, Server};

/// How long responses may be cached, in seconds.
const TTL: u32 = 300;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A certificate for this run. A real server reads its certificate and key from files.
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone())?;

    let zone = Arc::new(zone()?);
    let server = Server::new(move |request| respond(zone.clone(), request));
    let config = ServerConfig::new(vec![certified.cert.into()], key.into())
        .application_protocols([PROTOCOL])
        .transport(server.transport_config());
    let listening = Endpoint::server("127.0.0.1:0".parse()?, config)?;
    let address = listening.local_address();
    println!("server: listening on quic://{address}");
    tokio::spawn(async move { server.serve_quic(&listening).await });

    let endpoint = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_roots(roots);
    let client = Client::connect(&endpoint, &config, address, "localhost").await?;
    // Both queries are on the way at the same time, each on its own stream.
    let (first, second) = tokio::try_join!(
        client.query(query("www.example.", RecordType::AAAA)?),
        client.query(query("nobody.example.", RecordType::A)?),
    )?;
    for response in [first, second] {
        print(&response);
    }
    drop(client);
    endpoint.wait_idle().await;
    Ok(())
}

/// Returns the names of the zone and their addresses.
fn zone() -> Result<HashMap<Name, Vec<IpAddr>>, Box<dyn Error>> {
    let addresses = vec!["192.0.2.1".parse()?, "2001:db8::1".parse()?];
    Ok(HashMap::from([(Name::from_ascii("www.example.")?, addresses)]))
}

/// Responds with the addresses of the name in the query that match the query type.
async fn respond(zone: Arc<HashMap<Name, Vec<IpAddr>>>, request: Request) -> Message {
    let [query] = request.message().queries.as_slice() else {
        return request.response(ResponseCode::FormErr);
    };
    let Some(addresses) = zone.get(query.name()) else {
        let reason = ExtendedError::new(ErrorInfo::Other, "this zone has only one name");
        return request.failure(ResponseCode::NXDomain, &reason);
    };
    let mut response = request.response(ResponseCode::NoError);
    response.metadata.authoritative = true;
    for address in addresses {
        let data = match address {
            IpAddr::V4(address) => RData::A((*address).into()),
            IpAddr::V6(address) => RData::AAAA((*address).into()),
        };
        if data.record_type() == query.query_type() {
            response.add_answer(Record::from_rdata(query.name().clone(), TTL, data));
        }
    }
    response
}

fn query(name: &str, kind: RecordType) -> Result<Message, Box<dyn Error>> {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name)?, kind));
    Ok(message)
}

fn print(response: &Message) {
    for query in &response.queries {
        println!("client: {query}: {}", response.metadata.response_code);
    }
    for record in &response.answers {
        println!("client:   {record}");
    }
    if let Some(error) = response.edns.as_ref().and_then(ExtendedError::of) {
        println!("client:   {error}");
    }
}
