//! DoQ servers: correct clients, and clients that violate RFC 9250.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clearway::{ReadError, VarInt};
use clearway_dns::hickory_proto::op::{Edns, Message, MessageType};
use clearway_dns::hickory_proto::rr::rdata::opt::EdnsOption;
use clearway_dns::{
    Answer, ErrorCode, Limits, Protocol, QueryError, Request, Server, UnsafeEarlyQuery,
};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::support::{Site, address, closed_with, framed, query, send};

async fn respond(request: Request) -> Answer {
    assert_eq!(request.protocol(), Protocol::Quic);
    address(&request).into()
}

fn limited(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

#[tokio::test]
async fn queries_are_answered_and_padded() {
    let site = Site::new();
    let server = Server::new(respond);
    let endpoint = site.serve(&server);
    let client = site.connect(endpoint.local_address()).await;
    let mut message = query("www.example.");
    message.metadata.id = 77;
    let response = client.query(message).await.unwrap();
    assert_eq!(response.metadata.id, 0);
    assert_eq!(response.answers.len(), 1);

    // Padding, as it is on the stream: RFC 8467.
    let connection = site.connect_raw(endpoint.local_address()).await;
    let mut recv = send(&connection, framed(query("www.example."))).await;
    assert_eq!(recv.read_to_end(70_000).await.unwrap().len(), 2 + 468);
    let mut plain = query("www.example.");
    plain.edns = None;
    let mut recv = send(&connection, framed(plain)).await;
    let octets = recv.read_to_end(70_000).await.unwrap();
    assert!(Message::from_vec(&octets[2..]).unwrap().edns.is_none());
    let statistics = server.statistics();
    assert_eq!((statistics.queries, statistics.responses), ([3, 0, 0, 0], 3));
}

#[tokio::test]
async fn a_later_query_may_be_answered_first() {
    let site = Site::new();
    let gate = Arc::new(Notify::new());
    let waiting = gate.clone();
    let server = Server::new(move |request: Request| {
        let gate = waiting.clone();
        async move {
            if request.message().queries[0].name().to_ascii() == "slow." {
                gate.notified().await;
            }
            address(&request)
        }
    });
    let endpoint = site.serve(&server);
    let client = site.connect(endpoint.local_address()).await;
    let mut slow = Box::pin(client.query(query("slow.")));
    tokio::select! {
        _ = &mut slow => panic!("the gate is closed"),
        fast = client.query(query("fast.")) => assert_eq!(fast.unwrap().answers.len(), 1),
    }
    gate.notify_one();
    assert_eq!(slow.await.unwrap().answers.len(), 1);
}

#[tokio::test]
async fn violations_close_the_connection() {
    let site = Site::new();
    let server = Server::new(respond);
    let endpoint = site.serve(&server);
    let whole = framed(query("www.example."));
    let mut nonzero_id = whole.clone();
    nonzero_id[3] = 1;
    let mut response = query("www.example.");
    response.metadata.message_type = MessageType::Response;
    let mut keepalive = query("www.example.");
    let mut edns = Edns::new();
    edns.options_mut().insert(EdnsOption::Unknown(11, vec![0, 1]));
    keepalive.set_edns(edns);
    let cases = [
        ("empty", vec![]),
        ("only half of the length field", vec![0]),
        ("truncated", whole[..whole.len() - 1].to_vec()),
        ("longer than announced", [&whole[..], &[0]].concat()),
        ("two queries", [&whole[..], &whole[..]].concat()),
        ("no DNS message", vec![0, 3, 1, 2, 3]),
        ("an empty message", vec![0, 0]),
        ("an ID other than 0", nonzero_id),
        ("a response", framed(response)),
        ("edns-tcp-keepalive", framed(keepalive)),
    ];
    let count = cases.len() as u64;
    for (case, octets) in cases {
        let connection = site.connect_raw(endpoint.local_address()).await;
        let _recv = send(&connection, octets).await;
        assert_eq!(closed_with(&connection).await, ErrorCode::ProtocolError, "{case}");
    }
    assert_eq!(server.statistics().violations, count);
    assert_eq!(server.statistics().responses, 0);
}

#[tokio::test]
async fn a_second_query_is_a_violation_without_the_end_of_the_stream() {
    let site = Site::new();
    let endpoint = site.serve(&Server::new(respond));
    let connection = site.connect_raw(endpoint.local_address()).await;
    let (mut send, _recv) = connection.open_bi().await.unwrap();
    let whole = framed(query("www.example."));
    send.write_all(&[&whole[..], &whole[..]].concat()).await.unwrap();
    assert_eq!(closed_with(&connection).await, ErrorCode::ProtocolError);
}

#[tokio::test]
async fn unidirectional_streams_are_violations() {
    let site = Site::new();
    let endpoint = site.serve(&Server::new(respond));
    let connection = site.connect_raw(endpoint.local_address()).await;
    let mut send = connection.open_uni().await.unwrap();
    send.write_all(b"x").await.unwrap();
    assert_eq!(closed_with(&connection).await, ErrorCode::ProtocolError);
}

#[tokio::test]
async fn a_missing_fin_is_a_violation_after_the_time_limit() {
    let site = Site::new();
    let limits = limited(|limits| limits.receive_time = Duration::from_millis(20));
    let server = Server::with_limits(respond, limits, UnsafeEarlyQuery::Refuse);
    let endpoint = site.serve(&server);
    let whole = framed(query("www.example."));
    for octets in [&whole[..], &whole[..whole.len() - 1]] {
        let connection = site.connect_raw(endpoint.local_address()).await;
        let (mut send, _recv) = connection.open_bi().await.unwrap();
        send.write_all(octets).await.unwrap();
        assert_eq!(closed_with(&connection).await, ErrorCode::ProtocolError);
    }
}

#[tokio::test]
async fn a_long_query_is_excessive_load() {
    let site = Site::new();
    let limits = limited(|limits| limits.query_size = 100);
    let server = Server::with_limits(respond, limits, UnsafeEarlyQuery::Refuse);
    let endpoint = site.serve(&server);
    let connection = site.connect_raw(endpoint.local_address()).await;
    let (mut send, _recv) = connection.open_bi().await.unwrap();
    send.write_all(&[0, 101]).await.unwrap();
    assert_eq!(closed_with(&connection).await, ErrorCode::ExcessiveLoad);
}

/// Never responds, and reports when a query is dropped.
fn silent() -> (Server<impl clearway_dns::Handler>, mpsc::UnboundedReceiver<oneshot::Receiver<()>>)
{
    let (sender, receiver) = mpsc::unbounded_channel();
    let server = Server::with_limits(
        move |_: Request| {
            let sender = sender.clone();
            async move {
                let (alive, dropped) = oneshot::channel::<()>();
                let _ = sender.send(dropped);
                std::future::pending::<()>().await;
                drop(alive);
                Answer::abandon()
            }
        },
        limited(|limits| {
            limits.queries = 2;
            limits.cancellations = 2;
        }),
        UnsafeEarlyQuery::Refuse,
    );
    (server, receiver)
}

#[tokio::test]
async fn a_dropped_query_is_canceled_at_the_server() {
    let site = Site::new();
    let (server, mut begun) = silent();
    let endpoint = site.serve(&server);
    let client = site.connect(endpoint.local_address()).await;
    for _ in 0..2 {
        let mut pending = Box::pin(client.query(query("www.example.")));
        let dropped = tokio::select! {
            _ = &mut pending => panic!("there is no response"),
            dropped = begun.recv() => dropped.unwrap(),
        };
        drop(pending);
        // The sender is dropped with the handler's future.
        assert!(dropped.await.is_err());
    }
    assert!(client.is_open());
    // One more than the limit.
    let mut pending = Box::pin(client.query(query("www.example.")));
    tokio::select! {
        _ = &mut pending => panic!("there is no response"),
        dropped = begun.recv() => drop(dropped.unwrap()),
    }
    drop(pending);
    assert_eq!(closed_with(client.connection()).await, ErrorCode::ExcessiveLoad);
    assert_eq!(server.statistics().cancellations, 3);
}

#[tokio::test]
async fn a_query_ends_at_its_time_limit() {
    let site = Site::new();
    let (server, _begun) = silent();
    let endpoint = site.serve(&server);
    let client = site.connect(endpoint.local_address()).await;
    // The server may not have received the query yet.
    let client = client.with_query_time(Duration::from_millis(20));
    let outcome = client.query(query("www.example.")).await;
    assert!(matches!(outcome, Err(QueryError::TimedOut(_))), "{outcome:?}");
    assert!(client.is_open());
}

#[tokio::test]
async fn a_reset_before_the_end_abandons_the_query() {
    let site = Site::new();
    let endpoint = site.serve(&Server::new(respond));
    let connection = site.connect_raw(endpoint.local_address()).await;
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(&[0, 40, 0, 0]).await.unwrap();
    send.reset(ErrorCode::RequestCancelled.code()).unwrap();
    let code = ErrorCode::RequestCancelled.code();
    assert_eq!(recv.read_chunk(10).await, Err(ReadError::Reset(code)));
    // The connection continues.
    let mut recv = crate::support::send(&connection, framed(query("www.example."))).await;
    assert!(!recv.read_to_end(70_000).await.unwrap().is_empty());
}

#[tokio::test]
async fn too_many_queries_are_rejected() {
    let site = Site::new();
    let (server, mut begun) = silent();
    let endpoint = site.serve(&server);
    let client = site.connect(endpoint.local_address()).await;
    let two = async { tokio::join!(client.query(query("a.")), client.query(query("b."))) };
    let third = async {
        begun.recv().await.unwrap();
        begun.recv().await.unwrap();
        client.query(query("c.")).await
    };
    tokio::select! {
        _ = two => panic!("there is no response"),
        outcome = third => {
            assert!(matches!(outcome, Err(QueryError::Reset(ErrorCode::ExcessiveLoad))));
        }
    }
    assert_eq!(server.statistics().overloads, 1);
}

#[tokio::test]
async fn a_handler_may_abandon_a_query_or_panic() {
    let site = Site::new();
    let server = Server::new(|request: Request| async move {
        match request.message().queries[0].name().to_ascii().as_str() {
            "panic." => panic!("as expected"),
            "abandon." => Answer::abandon(),
            _ => address(&request).into(),
        }
    });
    let endpoint = site.serve(&server);
    let client = site.connect(endpoint.local_address()).await;
    for failing in ["panic.", "abandon."] {
        let outcome = client.query(query(failing)).await;
        let internal = matches!(outcome, Err(QueryError::Reset(ErrorCode::InternalError)));
        assert!(internal, "{failing}: {outcome:?}");
    }
    assert_eq!(client.query(query("www.example.")).await.unwrap().answers.len(), 1);
    assert_eq!(server.statistics().panics, 1);
}

#[tokio::test]
async fn an_unknown_edns_version_is_refused() {
    let site = Site::new();
    let endpoint = site.serve(&Server::new(respond));
    let client = site.connect(endpoint.local_address()).await;
    let mut message = query("www.example.");
    message.edns.as_mut().unwrap().set_version(1);
    let response = client.query(message).await.unwrap();
    // BADVERS and BADSIG have the same number.
    assert_eq!(u16::from(response.metadata.response_code), 16);
}

#[tokio::test]
async fn a_dropped_client_closes_its_connection_without_error() {
    let site = Site::new();
    let endpoint = clearway::Endpoint::server(crate::support::loopback(), site.server()).unwrap();
    let address = endpoint.local_address();
    let (client, connection) = tokio::join!(site.connect(address), async {
        endpoint.accept().await.unwrap().await.unwrap()
    });
    drop(client);
    assert_eq!(closed_with(&connection).await, ErrorCode::NoError);
}

#[tokio::test]
async fn draining_waits_for_outstanding_queries() {
    let site = Site::new();
    let gate = Arc::new(Notify::new());
    let (waiting, (begun, mut beginning)) = (gate.clone(), mpsc::unbounded_channel());
    let server = Server::new(move |request: Request| {
        let (gate, begun) = (waiting.clone(), begun.clone());
        async move {
            begun.send(()).unwrap();
            gate.notified().await;
            address(&request)
        }
    });
    let endpoint = site.serve(&server);
    let client = site.connect(endpoint.local_address()).await;
    let ending = async {
        beginning.recv().await.unwrap();
        let mut drained = Box::pin(server.drain());
        tokio::select! {
            biased;
            () = &mut drained => panic!("a query is outstanding"),
            () = std::future::ready(()) => gate.notify_one(),
        }
        drained.await;
    };
    let (response, ()) = tokio::join!(client.query(query("www.example.")), ending);
    assert_eq!(response.unwrap().answers.len(), 1);
    let outcome = client.query(query("www.example.")).await;
    assert!(matches!(outcome, Err(QueryError::Reset(ErrorCode::ExcessiveLoad))), "{outcome:?}");
}

/// Error codes that RFC 9250 does not define are equivalent to DOQ_UNSPECIFIED_ERROR, and cancel a
/// query just as well.
#[tokio::test]
async fn any_code_cancels_a_query() {
    let site = Site::new();
    let (server, mut begun) = silent();
    let endpoint = site.serve(&server);
    let connection = site.connect_raw(endpoint.local_address()).await;
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.finish_with(Bytes::from(framed(query("www.example.")))).await.unwrap();
    let dropped = begun.recv().await.unwrap();
    recv.stop(VarInt::from_u32(0xd098_ea5e)).unwrap();
    assert!(dropped.await.is_err());
}
