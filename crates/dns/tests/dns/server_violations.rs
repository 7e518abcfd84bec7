//! Clients of servers that violate RFC 9250 or reset streams, and clients that cancel queries.

use bytes::Bytes;
use clearway::{Connection, Endpoint, RecvStream, SendStream, TransportConfig, VarInt};
use clearway_dns::hickory_proto::op::{Edns, Message, MessageType};
use clearway_dns::hickory_proto::rr::RecordType;
use clearway_dns::hickory_proto::rr::rdata::opt::EdnsOption;
use clearway_dns::{Client, ErrorCode, QueryError, Violation};

use crate::support::{Site, closed_with, framed, loopback, query};

fn response(name: &str) -> Message {
    let mut response = query(name);
    response.metadata.message_type = MessageType::Response;
    response
}

/// A connection between a client and a simulated server, which the test controls.
pub(crate) async fn pair() -> (Client, Connection) {
    let site = Site::new();
    // A query of more than 8 KiB cannot arrive before the test reads it.
    let transport = TransportConfig::builder()
        .initial_stream_receive_window(8 << 10)
        .max_stream_receive_window(8 << 10);
    let config = site.server().transport(transport.build().unwrap());
    let endpoint = Endpoint::server(loopback(), config).unwrap();
    let address = endpoint.local_address();
    tokio::join!(site.connect(address), async { endpoint.accept().await.unwrap().await.unwrap() })
}

/// Reads a query, and returns the stream that it arrived on.
async fn accept(connection: &Connection) -> (SendStream, RecvStream) {
    let (send, mut recv) = connection.accept_bi().await.unwrap();
    recv.read_to_end(70_000).await.unwrap();
    (send, recv)
}

#[tokio::test]
async fn malformed_responses_close_the_connection() {
    let whole = framed(response("www.example."));
    let mut nonzero_id = whole.clone();
    nonzero_id[2] = 1;
    let mut keepalive = response("www.example.");
    let mut edns = Edns::new();
    edns.options_mut().insert(EdnsOption::Unknown(11, vec![]));
    keepalive.set_edns(edns);
    for (octets, expected) in [
        (vec![], Violation::Truncated),
        (whole[..whole.len() - 1].to_vec(), Violation::Truncated),
        ([&whole[..], &whole[..]].concat(), Violation::SecondMessage),
        (vec![0, 2, 1, 2], Violation::Malformed),
        (nonzero_id, Violation::NonzeroId),
        (framed(query("www.example.")), Violation::WrongDirection),
        (framed(response("other.example.")), Violation::WrongQuestion),
        (framed(keepalive), Violation::TcpKeepalive),
    ] {
        let (client, connection) = pair().await;
        let answering = async {
            let (mut send, _recv) = accept(&connection).await;
            send.finish_with(Bytes::from(octets)).await.unwrap();
            closed_with(&connection).await
        };
        let (outcome, code) = tokio::join!(client.query(query("www.example.")), answering);
        match outcome {
            Err(QueryError::Violation(violation)) => assert_eq!(violation, expected),
            outcome => panic!("{expected}: {outcome:?}"),
        }
        assert_eq!(code, ErrorCode::ProtocolError, "{expected}");
        assert!(!client.is_open());
    }
}

#[tokio::test]
async fn streams_of_a_server_close_the_connection() {
    for is_bidirectional in [false, true] {
        let (client, connection) = pair().await;
        let mut send = match is_bidirectional {
            true => connection.open_bi().await.unwrap().0,
            false => connection.open_uni().await.unwrap(),
        };
        send.write_all(b"x").await.unwrap();
        assert_eq!(closed_with(&connection).await, ErrorCode::ProtocolError);
        assert!(!client.is_open());
    }
}

#[tokio::test]
async fn a_server_must_not_stop_a_query() {
    let (client, connection) = pair().await;
    let answering = async {
        let (_send, mut recv) = connection.accept_bi().await.unwrap();
        recv.stop(ErrorCode::NoError.code()).unwrap();
        closed_with(&connection).await
    };
    // Longer than the window, so that the end cannot have arrived.
    let mut message = query("www.example.");
    let mut edns = Edns::new();
    edns.options_mut().insert(EdnsOption::Unknown(65001, vec![0; 20_000]));
    message.set_edns(edns);
    let (outcome, code) = tokio::join!(client.query(message), answering);
    assert!(matches!(outcome, Err(QueryError::Violation(Violation::StopSending))), "{outcome:?}");
    assert_eq!(code, ErrorCode::ProtocolError);
}

#[tokio::test]
async fn a_reset_stream_fails_one_query_with_its_code() {
    let (client, connection) = pair().await;
    let codes = ErrorCode::ALL.map(|code| (code.code(), code));
    let reserved = (VarInt::from_u32(0xd098_ea5e), ErrorCode::UnspecifiedError);
    for (sent, expected) in codes.into_iter().chain([reserved]) {
        let answering = async {
            let (mut send, _recv) = accept(&connection).await;
            send.reset(sent).unwrap();
        };
        let (outcome, ()) = tokio::join!(client.query(query("www.example.")), answering);
        match outcome {
            Err(QueryError::Reset(code)) => assert_eq!(code, expected),
            outcome => panic!("{expected}: {outcome:?}"),
        }
    }
    assert!(client.is_open());
}

#[tokio::test]
async fn a_closed_connection_fails_queries_with_the_reason() {
    let (client, connection) = pair().await;
    let answering = async {
        let _streams = accept(&connection).await;
        connection.close(ErrorCode::ExcessiveLoad.code(), b"busy");
    };
    let (outcome, ()) = tokio::join!(client.query(query("www.example.")), answering);
    let Err(QueryError::ConnectionLost(error)) = outcome else { panic!("{outcome:?}") };
    assert!(error.to_string().contains("busy"), "{error}");
    assert!(matches!(
        client.query(query("www.example.")).await,
        Err(QueryError::ConnectionLost(_))
    ));
}

#[tokio::test]
async fn zone_transfers_are_not_sent() {
    let (client, _connection) = pair().await;
    for kind in [RecordType::AXFR, RecordType::IXFR] {
        let mut message = query("example.");
        message.queries[0].set_query_type(kind);
        assert!(matches!(client.query(message).await, Err(QueryError::ZoneTransfer)));
    }
}

#[tokio::test]
async fn a_canceled_query_has_its_code() {
    let (client, connection) = pair().await;
    let mut pending = Box::pin(client.query(query("www.example.")));
    let (send, _recv) = tokio::select! {
        _ = &mut pending => panic!("there is no response"),
        streams = accept(&connection) => streams,
    };
    drop(pending);
    let code = ErrorCode::RequestCancelled.code();
    assert_eq!(send.stopped().await.unwrap(), Some(code));
    assert!(client.is_open());
}
