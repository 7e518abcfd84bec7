//! What h3 does over Clearway, but not over quinn.

use core::future::poll_fn;

use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use h3::quic::{SendStreamUnframed, StreamErrorIncoming};
use h3::{client, server};
use http::Request;
use tokio::sync::oneshot;

use crate::backend::{Backend, Clearway, LONG};
use crate::frames::{Frames, POST};
use crate::raw::{assert_close, finish, open_bidi};
use crate::support::{URI, assert_closed_here, get, next_request, respond, run};

type Server = server::Connection<clearway_h3::Connection, Bytes>;

/// Writes to a stream that the server has stopped fail, and the connection stays open.
#[test]
fn each_write_to_a_stopped_stream_fails() {
    run(async {
        let backend = Clearway::new(LONG);
        let (client, server) = backend.pair().await;
        let client = async {
            let (_driver, mut client) = client::new(client).await.unwrap();
            let request = Request::post(URI).body(()).unwrap();
            let mut stream = client.send_request(request).await.unwrap();
            let mut failures = 0;
            while failures < 3 {
                let Err(error) = stream.send_data(Bytes::from_static(b"data")).await else {
                    continue;
                };
                let StreamError::RemoteTerminate { code } = error else { panic!("{error:?}") };
                assert_eq!(code, Code::H3_NO_ERROR);
                failures += 1;
            }
            get(&mut client).await.unwrap();
        };
        let server = async {
            let mut server: Server = server::Connection::new(server).await.unwrap();
            let (_, mut stopped) = next_request(&mut server).await;
            stopped.stop_sending(Code::H3_NO_ERROR);
            let (_, mut stream) = next_request(&mut server).await;
            respond(&mut stream).await;
            (server, stopped)
        };
        tokio::join!(client, server);
    });
}

/// A stream ends within a DATA frame, after the server has read the beginning of its content.
#[test]
fn content_may_not_end_within_a_frame() {
    run(async {
        let backend = Clearway::new(LONG);
        let (mut client, server) = backend.pair().await;
        let (read, is_read) = oneshot::channel();
        let client = async {
            let frames = Frames::new().headers(POST).raw(&[0x00, 5]).raw(b"da");
            let mut stream = open_bidi(&mut client, &frames).await;
            is_read.await.unwrap();
            finish(&mut stream).await;
            assert_close(&mut client, Code::H3_FRAME_ERROR).await;
        };
        let server = async {
            let mut server: Server = server::Connection::new(server).await.unwrap();
            let (_, mut stream) = next_request(&mut server).await;
            let mut received = 0;
            while received < 2 {
                received += stream.recv_data().await.unwrap().unwrap().remaining();
            }
            read.send(()).unwrap();
            let Err(StreamError::ConnectionError(error)) = stream.recv_data().await.map(drop)
            else {
                panic!()
            };
            assert_closed_here(&error, Code::H3_FRAME_ERROR);
            server.accept().await.err().unwrap();
        };
        tokio::join!(client, server);
    });
}

/// A HEADERS frame that h3 would store whole is rejected before its content arrives.
#[test]
fn large_frames_are_rejected() {
    run(async {
        let backend = Clearway::new(LONG);
        let (mut client, server) = backend.pair().await;
        let client = async {
            // A length of 2^30 - 1.
            let frames = Frames::new().raw(&[0x01, 0xbf, 0xff, 0xff, 0xff]);
            let mut stream = open_bidi(&mut client, &frames).await;
            let stopped = loop {
                let mut data: &[u8] = &[0; 1 << 10];
                let sent = poll_fn(|context| stream.poll_send(context, &mut data)).await;
                if let Err(error) = sent {
                    break error;
                }
            };
            let StreamErrorIncoming::StreamTerminated { error_code } = stopped else {
                panic!("{stopped:?}")
            };
            assert_eq!(error_code, Code::H3_EXCESSIVE_LOAD.value());
        };
        let server = async {
            let mut server: Server = server::Connection::new(server).await.unwrap();
            let resolver = server.accept().await.unwrap().unwrap();
            let Err(StreamError::Undefined(error)) = resolver.resolve_request().await.map(drop)
            else {
                panic!()
            };
            let expected = "the peer sent a frame of type 0x1 with 1073741823 bytes, but only DATA \
                            frames may have more than 1048576";
            assert_eq!(error.to_string(), expected);
            server
        };
        tokio::join!(client, server);
    });
}
