//! Exchanges of one request and one response.

use bytes::Bytes;
use h3::error::Code;
use h3::{client, server};
use http::{Request, Response, StatusCode};

use crate::backend::{Backend, LONG, over_each_backend};
use crate::support::{
    URI, assert_closed_by_peer, assert_closed_here, content, drive, extend, next_request, respond,
    response, send_get,
};

over_each_backend! {
    a_response_with_content
    a_request_with_content
    long_content_in_both_directions
}

async fn a_response_with_content<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        let exchange = async {
            let mut stream = send_get(&mut client).await.unwrap();
            assert_eq!(stream.recv_response().await.unwrap().status(), StatusCode::OK);
            let mut body = Vec::new();
            while let Some(piece) = stream.recv_data().await.unwrap() {
                extend(&mut body, piece);
            }
            assert_eq!(body, b"hello");
            // The driver then closes the connection.
            drop((stream, client));
        };
        let (error, ()) = tokio::join!(drive(driver), exchange);
        assert_closed_here(&error, Code::H3_NO_ERROR);
    };
    let server = async {
        let mut server = server::Connection::<_, Bytes>::new(server).await.unwrap();
        let (request, mut stream) = next_request(&mut server).await;
        assert_eq!((request.method().as_str(), request.uri().path()), ("GET", "/"));
        stream.send_response(Response::new(())).await.unwrap();
        stream.send_data(Bytes::from_static(b"hello")).await.unwrap();
        stream.finish().await.unwrap();
        let error = server.accept().await.err().unwrap();
        assert_closed_by_peer(&error, Code::H3_NO_ERROR);
    };
    tokio::join!(client, server);
}

async fn a_request_with_content<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        let exchange = async {
            let request = Request::post(URI).body(()).unwrap();
            let mut stream = client.send_request(request).await.unwrap();
            stream.send_data(Bytes::from_static(b"question")).await.unwrap();
            stream.finish().await.unwrap();
            let response = response(&mut stream).await.unwrap();
            assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
            drop((stream, client));
        };
        tokio::join!(drive(driver), exchange);
    };
    let server = async {
        let mut server = server::Connection::<_, Bytes>::new(server).await.unwrap();
        let (request, mut stream) = next_request(&mut server).await;
        assert_eq!(request.method(), "POST");
        assert_eq!(content(&mut stream).await, b"question");
        respond(&mut stream).await;
        let error = server.accept().await.err().unwrap();
        assert_closed_by_peer(&error, Code::H3_NO_ERROR);
    };
    tokio::join!(client, server);
}

/// The server echoes more than send buffers and receive windows hold, on a split stream.
async fn long_content_in_both_directions<B: Backend>() {
    const PIECE: usize = 300_000;
    const PIECES: usize = 30;
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        let exchange = async {
            let request = Request::post(URI).body(()).unwrap();
            let (mut send, mut recv) = client.send_request(request).await.unwrap().split();
            let sending = async {
                for number in 0..PIECES {
                    send.send_data(Bytes::from(vec![number as u8; PIECE])).await.unwrap();
                }
                send.finish().await.unwrap();
            };
            let receiving = async {
                recv.recv_response().await.unwrap();
                let mut echo = Vec::new();
                while let Some(piece) = recv.recv_data().await.unwrap() {
                    extend(&mut echo, piece);
                }
                echo
            };
            let ((), echo) = tokio::join!(sending, receiving);
            assert_eq!(echo.len(), PIECES * PIECE);
            for (number, piece) in echo.chunks(PIECE).enumerate() {
                assert!(piece.iter().all(|byte| *byte == number as u8), "piece {number}");
            }
            drop((send, recv, client));
        };
        tokio::join!(drive(driver), exchange);
    };
    let server = async {
        let mut server = server::Connection::<_, Bytes>::new(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        stream.send_response(Response::new(())).await.unwrap();
        let (mut send, mut recv) = stream.split();
        while let Some(piece) = recv.recv_data().await.unwrap() {
            let mut echo = Vec::new();
            extend(&mut echo, piece);
            send.send_data(echo.into()).await.unwrap();
        }
        send.finish().await.unwrap();
        server.accept().await.err().unwrap();
    };
    tokio::join!(client, server);
}
