//! Unreliable datagrams over h3-datagram.

use bytes::{Buf, Bytes};
use clearway::TransportConfig;
use h3::error::Code;
use h3::{client, server};
use h3_datagram::datagram::Datagram;
use h3_datagram::datagram_handler::{HandleDatagramsExt, SendDatagramError};

use crate::backend::{Backend, Clearway, LONG, over_each_backend};
use crate::support::{
    assert_closed_by_peer, drive, extend, next_request, respond, response, run, send_get,
};

over_each_backend! {
    datagrams_belong_to_a_request
    a_large_datagram_is_rejected
}

type Server<B> = server::Connection<<B as Backend>::Connection, Bytes>;

fn payload(datagram: Datagram<impl Buf>) -> Vec<u8> {
    let mut payload = Vec::new();
    extend(&mut payload, datagram.into_payload());
    payload
}

async fn datagrams_belong_to_a_request<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let mut builder = client::builder();
        let (driver, mut client) =
            builder.enable_datagram(true).build::<_, _, Bytes>(client).await.unwrap();
        let mut stream = send_get(&mut client).await.unwrap();
        let mut sender = driver.get_datagram_sender(stream.id());
        let mut reader = driver.get_datagram_reader();
        let exchange = async {
            sender.send_datagram(Bytes::from_static(b"question")).unwrap();
            let answer = reader.read_datagram().await.unwrap();
            assert_eq!(answer.stream_id(), stream.id());
            assert_eq!(payload(answer), b"answer");
            response(&mut stream).await.unwrap();
            drop((stream, client));
        };
        tokio::join!(drive(driver), exchange);
        assert!(reader.read_datagram().await.is_err());
    };
    let server = async {
        let mut builder = server::builder();
        let mut server: Server<B> = builder.enable_datagram(true).build(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        let question = server.get_datagram_reader().read_datagram().await.unwrap();
        assert_eq!(question.stream_id(), stream.id());
        assert_eq!(payload(question), b"question");
        let mut sender = server.get_datagram_sender(stream.id());
        sender.send_datagram(Bytes::from_static(b"answer")).unwrap();
        respond(&mut stream).await;
        assert_closed_by_peer(&server.accept().await.err().unwrap(), Code::H3_NO_ERROR);
        let sent = sender.send_datagram(Bytes::from_static(b"late"));
        assert!(matches!(sent, Err(SendDatagramError::ConnectionError { .. })), "{sent:?}");
    };
    tokio::join!(client, server);
}

async fn a_large_datagram_is_rejected<B: Backend>() {
    let backend = B::new(LONG);
    let (client, _server) = backend.pair().await;
    let (driver, mut client) = client::new(client).await.unwrap();
    let stream = send_get(&mut client).await.unwrap();
    let mut sender = driver.get_datagram_sender(stream.id());
    let sent = sender.send_datagram(Bytes::from(vec![0; 100_000]));
    assert!(matches!(sent, Err(SendDatagramError::TooLarge { .. })), "{sent:?}");
}

/// Sends datagrams over Clearway to a server with this configuration. Returns the last outcome.
async fn send_many(transport: TransportConfig) -> Result<(), SendDatagramError> {
    let backend = Clearway::with(transport);
    let (client, _server) = backend.pair().await;
    let (driver, mut client) = client::new(client).await.unwrap();
    let stream = send_get(&mut client).await.unwrap();
    let mut sender = driver.get_datagram_sender(stream.id());
    (0..100).map(|_| sender.send_datagram(Bytes::from_static(&[0; 1000]))).last().unwrap()
}

#[test]
fn datagrams_that_the_queue_cannot_hold_are_dropped() {
    run(async {
        let transport = TransportConfig::builder()
            .max_datagram_frame_size(Some(65_535))
            .datagram_send_buffer(2000);
        send_many(transport.build().unwrap()).await.unwrap();
    });
}

#[test]
fn datagrams_are_unavailable_by_default() {
    run(async {
        let sent = send_many(TransportConfig::default()).await;
        assert!(matches!(sent, Err(SendDatagramError::NotAvailable { .. })), "{sent:?}");
    });
}
