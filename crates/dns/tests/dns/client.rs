//! What DoQ clients send: one padded message on each stream.

use bytes::Bytes;
use clearway::{Connection, SendStream};
use clearway_dns::hickory_proto::op::{Message, MessageType};
use clearway_dns::hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};

use crate::server_violations::pair;
use crate::support::{framed, query};

/// Receives a query, with the end of its stream.
async fn receive(connection: &Connection) -> (SendStream, Message) {
    let (send, mut recv) = connection.accept_bi().await.unwrap();
    let octets = recv.read_to_end(70_000).await.unwrap();
    assert_eq!((octets.len(), &octets[..2]), (2 + 128, &[0, 128][..]));
    (send, Message::from_vec(&octets[2..]).unwrap())
}

fn response_to(mut message: Message) -> Message {
    message.metadata.message_type = MessageType::Response;
    message
}

/// RFC 9250 §4.2 and §5.4: the length field, the ID 0, padding to 128 octets (RFC 8467), one query
/// per stream, and the end of the stream before there is a response.
#[tokio::test]
async fn a_query_is_one_padded_message_on_a_stream_of_its_own() {
    let (client, connection) = pair().await;
    let names = ["a.example.", "b.example."];
    let serving = async {
        let mut streams = Vec::new();
        for name in names {
            let (send, message) = receive(&connection).await;
            assert_eq!(message.metadata.id, 0);
            assert_eq!(message.queries[0].name().to_ascii(), name);
            let edns = message.edns.as_ref().unwrap();
            let Some(EdnsOption::Unknown(_, padding)) = edns.option(EdnsCode::Padding) else {
                panic!("{edns:?}");
            };
            assert!(padding.iter().all(|octet| *octet == 0));
            streams.push((send, message));
        }
        // The second query did not wait for the response to the first one.
        for (mut send, message) in streams {
            send.finish_with(Bytes::from(framed(response_to(message)))).await.unwrap();
        }
    };
    let mut numbered = query(names[0]);
    numbered.metadata.id = 7;
    let (first, second, ()) =
        tokio::join!(client.query(numbered), client.query(query(names[1])), serving);
    for (response, name) in [first, second].into_iter().zip(names) {
        let response = response.unwrap();
        assert_eq!(response.metadata.id, 0);
        assert_eq!(response.queries[0].name().to_ascii(), name);
    }
}

/// A query without EDNS gets it, for padding; a longer one takes more blocks.
#[tokio::test]
async fn every_query_is_padded() {
    let (client, connection) = pair().await;
    for (labels, expected) in [(0, 128), (50, 256)] {
        let mut message = query(&("a.".repeat(labels) + "example."));
        message.edns = None;
        let serving = async {
            let (_send, mut recv) = connection.accept_bi().await.unwrap();
            recv.read_to_end(70_000).await.unwrap().len()
        };
        tokio::select! {
            _ = client.query(message) => panic!("there is no response"),
            length = serving => assert_eq!(length, 2 + expected),
        }
    }
}

#[tokio::test]
async fn a_response_is_complete_at_the_end_of_its_stream() {
    let (client, connection) = pair().await;
    let mut first = Box::pin(client.query(query("a.example.")));
    let serving = async {
        let (mut first, message) = receive(&connection).await;
        first.write_all(&framed(response_to(message))).await.unwrap();
        let (mut second, message) = receive(&connection).await;
        second.finish_with(Bytes::from(framed(response_to(message)))).await.unwrap();
        first
    };
    let second = async { tokio::join!(client.query(query("b.example.")), serving) };
    let mut stream = tokio::select! {
        biased;
        outcome = &mut first => panic!("the stream has not ended: {outcome:?}"),
        (second, stream) = second => {
            assert!(second.is_ok());
            stream
        }
    };
    stream.finish().unwrap();
    assert!(first.await.is_ok());
}
