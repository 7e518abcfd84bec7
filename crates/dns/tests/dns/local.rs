//! DNS over UDP and TCP, for local clients.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clearway_dns::hickory_proto::op::{Message, MessageType, ResponseCode};
use clearway_dns::hickory_proto::rr::rdata::A;
use clearway_dns::hickory_proto::rr::{RData, Record};
use clearway_dns::{Handler, Limits, Request, Server, UnsafeEarlyQuery};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::support::{address, loopback, name, query};

/// Responds with a hundred addresses, which do not fit into a UDP datagram.
pub(crate) async fn many(request: Request) -> Message {
    let mut response = request.response(ResponseCode::NoError);
    for last in 0..100 {
        let data = RData::A(A(Ipv4Addr::new(192, 0, 2, last)));
        response.add_answer(Record::from_rdata(name("www.example."), 60, data));
    }
    response
}

/// Listens on the same port for UDP and TCP.
pub(crate) async fn listen<H: Handler>(server: &Server<H>) -> SocketAddr {
    loop {
        let socket = UdpSocket::bind(loopback()).await.unwrap();
        let address = socket.local_addr().unwrap();
        // Another program may use the TCP port of this number.
        let Ok(listener) = TcpListener::bind(address).await else { continue };
        let (udp, tcp) = (server.clone(), server.clone());
        tokio::spawn(async move { udp.serve_udp(socket).await });
        tokio::spawn(async move { tcp.serve_tcp(listener).await });
        return address;
    }
}

async fn over_udp(server: SocketAddr, octets: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind(loopback()).await.unwrap();
    socket.connect(server).await.unwrap();
    socket.send(octets).await.unwrap();
    let mut buffer = vec![0; 65_536];
    let length = socket.recv(&mut buffer).await.unwrap();
    buffer.truncate(length);
    buffer
}

async fn next(stream: &mut TcpStream) -> Message {
    let length = stream.read_u16().await.unwrap();
    let mut octets = vec![0; length.into()];
    stream.read_exact(&mut octets).await.unwrap();
    Message::from_vec(&octets).unwrap()
}

fn prefixed(message: &Message) -> Vec<u8> {
    let octets = message.to_vec().unwrap();
    [&(octets.len() as u16).to_be_bytes(), octets.as_slice()].concat()
}

#[tokio::test]
async fn udp_responses_fit_the_clients_payload_size() {
    let server = listen(&Server::new(many)).await;
    let mut sent = query("www.example.");
    for (payload, limit) in [(512, 512), (1232, 1232), (4096, 1232)] {
        sent.edns.as_mut().unwrap().set_max_payload(payload);
        let octets = over_udp(server, &sent.to_vec().unwrap()).await;
        assert!(octets.len() <= limit);
        let response = Message::from_vec(&octets).unwrap();
        assert!(response.metadata.truncation && response.answers.is_empty());
        assert_eq!((response.metadata.id, &response.queries), (sent.metadata.id, &sent.queries));
        assert!(response.edns.is_some());
    }
    sent.edns = None;
    let response = Message::from_vec(&over_udp(server, &sent.to_vec().unwrap()).await).unwrap();
    assert!(response.metadata.truncation && response.edns.is_none());
    // The whole of it.
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(&prefixed(&sent)).await.unwrap();
    assert_eq!(next(&mut stream).await.answers.len(), 100);
}

#[tokio::test]
async fn malformed_udp_queries_get_a_format_error_and_responses_nothing() {
    let server = listen(&Server::new(|it: Request| async move { address(&it) })).await;
    let socket = UdpSocket::bind(loopback()).await.unwrap();
    socket.connect(server).await.unwrap();
    let mut response = query("www.example.");
    response.metadata.message_type = MessageType::Response;
    let octets = query("www.example.").to_vec().unwrap();
    let mut damaged_response = response.to_vec().unwrap();
    damaged_response.truncate(20);
    // Too short for a header, a response, half a response, and longer than the limit.
    for ignored in [&octets[..11], &response.to_vec().unwrap(), &damaged_response, &[0; 5000]] {
        socket.send(ignored).await.unwrap();
    }
    socket.send(&octets[..20]).await.unwrap();
    let mut buffer = [0; 1500];
    let length = socket.recv(&mut buffer).await.unwrap();
    let response = Message::from_vec(&buffer[..length]).unwrap();
    assert_eq!(response.metadata.response_code, ResponseCode::FormErr);
    assert_eq!(response.metadata.id.to_be_bytes(), octets[..2]);
}

#[tokio::test]
async fn tcp_queries_may_be_pipelined_and_arrive_in_parts() {
    let limits = Limits::default();
    let handler = |it: Request| async move { address(&it) };
    let server = Server::with_limits(handler, limits, UnsafeEarlyQuery::Refuse);
    let server = listen(&server).await;
    let mut stream = TcpStream::connect(server).await.unwrap();
    let queries = ["a.example.", "b.example.", "c.example."].map(query);
    let octets: Vec<u8> = queries.iter().flat_map(prefixed).collect();
    let (first, rest) = octets.split_at(50);
    stream.write_all(first).await.unwrap();
    assert_eq!(next(&mut stream).await.queries, queries[0].queries);
    stream.write_all(rest).await.unwrap();
    let mut ids = [next(&mut stream).await.metadata.id, next(&mut stream).await.metadata.id];
    let mut expected = [queries[1].metadata.id, queries[2].metadata.id];
    ids.sort_unstable();
    expected.sort_unstable();
    assert_eq!(ids, expected);
    // The rest of the responses comes after the client's end.
    stream.write_all(&prefixed(&queries[0])).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(next(&mut stream).await.queries, queries[0].queries);
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn idle_tcp_connections_are_closed() {
    let mut limits = Limits::default();
    limits.idle_time = Duration::from_millis(20);
    limits.tcp_connections = 1;
    let handler = |it: Request| async move { address(&it) };
    let server = Server::with_limits(handler, limits, UnsafeEarlyQuery::Refuse);
    let server = listen(&server).await;
    let mut idle = TcpStream::connect(server).await.unwrap();
    // Waits for the only place.
    let mut second = TcpStream::connect(server).await.unwrap();
    second.write_all(&prefixed(&query("www.example."))).await.unwrap();
    assert_eq!(idle.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(next(&mut second).await.answers.len(), 1);
}

#[tokio::test]
async fn a_long_tcp_query_closes_the_connection() {
    let server = listen(&Server::new(|it: Request| async move { address(&it) })).await;
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(&[255, 255]).await.unwrap();
    assert!(matches!(stream.read(&mut [0]).await, Ok(0) | Err(_)));
}
