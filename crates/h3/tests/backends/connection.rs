//! Connections: how they begin, shut down and end. The cases are those of h3's own tests.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;

use bytes::{Buf, Bytes};
use h3::ConnectionState;
use h3::error::{Code, ConnectionError, LocalError, StreamError};
use h3::{client, server};
use tokio::sync::oneshot;

use crate::backend::{Backend, LONG, over_each_backend};
use crate::frames::{Frames, POST};
use crate::raw::{assert_close, finish, open_bidi, open_uni, write};
use crate::support::{
    assert_closed_by_peer, assert_closed_here, client_settings, drive, get, next_request, respond,
    response, send_get, server_settings,
};

over_each_backend! {
    a_client_sees_that_the_server_has_gone
    a_server_sees_that_the_client_has_gone
    a_request_fails_when_the_server_goes
    a_response_precedes_the_end_of_the_request
    the_last_handle_closes_the_connection
    a_client_receives_settings
    a_server_receives_settings
    a_server_must_not_open_bidirectional_streams
    a_second_control_stream_is_an_error
    the_end_of_the_control_stream_is_an_error
    a_control_stream_must_begin_with_settings
    content_on_the_control_stream_is_an_error
    the_idle_timeout_ends_accepting
    a_goaway_frame_must_name_a_request
    a_shutdown_rejects_new_requests
    a_shutdown_permits_announced_requests
    a_shutdown_ends_when_idle
    a_client_shuts_down
    an_incomplete_request_blocks_nothing
}

type Server<B> = server::Connection<<B as Backend>::Connection, Bytes>;

async fn a_client_sees_that_the_server_has_gone<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let (driver, _client) = client::new(client).await.unwrap();
    let server: Server<B> = server::Connection::new(server).await.unwrap();
    drop(server);
    assert_closed_by_peer(&drive(driver).await, Code::H3_NO_ERROR);
}

async fn a_server_sees_that_the_client_has_gone<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let (driver, client) = client::new(client).await.unwrap();
    let mut server: Server<B> = server::Connection::new(server).await.unwrap();
    drop(client);
    let (here, there) = tokio::join!(drive(driver), server.accept());
    assert_closed_here(&here, Code::H3_NO_ERROR);
    assert_closed_by_peer(&there.err().unwrap(), Code::H3_NO_ERROR);
}

async fn a_request_fails_when_the_server_goes<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let (driver, mut client) = client::new(client).await.unwrap();
    let mut server: Server<B> = server::Connection::new(server).await.unwrap();
    let mut stream = send_get(&mut client).await.unwrap();
    let request = server.accept().await.unwrap();
    drop(server);
    let (end, response) = tokio::join!(drive(driver), stream.recv_response());
    assert_closed_by_peer(&end, Code::H3_NO_ERROR);
    let StreamError::ConnectionError(error) = response.unwrap_err() else { panic!() };
    assert_closed_by_peer(&error, Code::H3_NO_ERROR);
    drop(request);
}

async fn a_response_precedes_the_end_of_the_request<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (_driver, mut client) = client::new(client).await.unwrap();
        let mut stream = send_get(&mut client).await.unwrap();
        stream.send_data(Bytes::from_static(&[0; 100])).await.unwrap();
        response(&mut stream).await.unwrap();
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        let mut received = 0;
        while received < 100 {
            received += stream.recv_data().await.unwrap().unwrap().remaining();
        }
        respond(&mut stream).await;
        (server, stream)
    };
    tokio::join!(client, server);
}

async fn the_last_handle_closes_the_connection<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, first) = client::new(client).await.unwrap();
        for mut handle in [first.clone(), first] {
            let mut stream = send_get(&mut handle).await.unwrap();
            let Err(StreamError::RemoteTerminate { code }) = stream.recv_response().await else {
                panic!()
            };
            assert_eq!(code, Code::H3_REQUEST_CANCELLED);
            stream.finish().await.unwrap();
        }
        assert_closed_here(&drive(driver).await, Code::H3_NO_ERROR);
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let (_, mut first) = next_request(&mut server).await;
        first.stop_stream(Code::H3_REQUEST_CANCELLED);
        let (_, mut second) = next_request(&mut server).await;
        second.stop_stream(Code::H3_REQUEST_CANCELLED);
        assert_closed_by_peer(&server.accept().await.err().unwrap(), Code::H3_NO_ERROR);
    };
    tokio::join!(client, server);
}

async fn a_client_receives_settings<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let (mut driver, mut client) = client::new(client).await.unwrap();
    let mut builder = server::builder();
    let builder = builder.max_field_section_size(12).enable_datagram(true);
    let _server: Server<B> = builder.build(server).await.unwrap();
    assert!(!client.settings().enable_datagram());
    client_settings(&mut driver, &client).await;
    let Err(StreamError::HeaderTooBig { max_size: 12, .. }) = get(&mut client).await else {
        panic!()
    };
}

async fn a_server_receives_settings<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let mut builder = client::builder();
    let builder = builder.max_field_section_size(12).enable_datagram(true);
    let (_driver, _client) = builder.build::<_, _, Bytes>(client).await.unwrap();
    let mut server: Server<B> = server::Connection::new(server).await.unwrap();
    assert!(!server.settings().enable_datagram());
    server_settings(&mut server).await;
}

async fn a_server_must_not_open_bidirectional_streams<B: Backend>() {
    let backend = B::new(LONG);
    let (client, mut server) = backend.pair().await;
    let client = async {
        let (mut driver, mut client) = client::new(client).await.unwrap();
        let error = poll_fn(|context| driver.poll_close(context)).await;
        assert_closed_here(&error, Code::H3_STREAM_CREATION_ERROR);
        let Err(StreamError::ConnectionError(error)) = get(&mut client).await else { panic!() };
        assert_closed_here(&error, Code::H3_STREAM_CREATION_ERROR);
    };
    let server = async {
        let _stream = open_bidi(&mut server, &Frames::new().raw(b"not a server")).await;
        assert_close(&mut server, Code::H3_STREAM_CREATION_ERROR).await;
    };
    tokio::join!(client, server);
}

/// A client opens control streams with this content, and finishes them if `ends`. The server closes
/// the connection with `code`.
async fn control_error<B: Backend>(streams: &[Frames], ends: bool, code: Code) {
    let backend = B::new(LONG);
    let (mut client, server) = backend.pair().await;
    let client = async {
        let mut opened = Vec::new();
        for frames in streams {
            let mut stream = open_uni(&mut client, frames).await;
            if ends {
                finish(&mut stream).await;
            }
            opened.push(stream);
        }
        assert_close(&mut client, code).await;
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        // The error is permanent.
        for _ in 0..2 {
            assert_closed_here(&server.accept().await.err().unwrap(), code);
        }
    };
    tokio::join!(client, server);
}

async fn a_second_control_stream_is_an_error<B: Backend>() {
    let streams = [Frames::control(), Frames::control()];
    control_error::<B>(&streams, false, Code::H3_STREAM_CREATION_ERROR).await;
}

async fn the_end_of_the_control_stream_is_an_error<B: Backend>() {
    let streams = [Frames::control()];
    control_error::<B>(&streams, true, Code::H3_CLOSED_CRITICAL_STREAM).await;
}

async fn a_control_stream_must_begin_with_settings<B: Backend>() {
    let cancel_push = Frames::new().raw(&[0x00]).frame(0x03, &[0]);
    control_error::<B>(&[cancel_push], false, Code::H3_MISSING_SETTINGS).await;
}

async fn content_on_the_control_stream_is_an_error<B: Backend>() {
    let streams = [Frames::control().data(b"")];
    control_error::<B>(&streams, false, Code::H3_FRAME_UNEXPECTED).await;
}

async fn the_idle_timeout_ends_accepting<B: Backend>() {
    let backend = B::new(Duration::from_millis(500));
    let (client, server) = backend.pair().await;
    let (driver, _client) = client::new(client).await.unwrap();
    let mut server: Server<B> = server::Connection::new(server).await.unwrap();
    let (client, server) = tokio::join!(drive(driver), server.accept());
    assert!(matches!(client, ConnectionError::Timeout), "{client:?}");
    assert!(matches!(server, Err(ConnectionError::Timeout)));
}

async fn a_goaway_frame_must_name_a_request<B: Backend>() {
    let backend = B::new(LONG);
    let (client, mut server) = backend.pair().await;
    let client = async {
        let (driver, client) = client::new(client).await.unwrap();
        assert_closed_here(&drive(driver).await, Code::H3_ID_ERROR);
        drop(client);
    };
    let server = async {
        // The ID of a bidirectional stream of the server.
        let _control = open_uni(&mut server, &Frames::control().goaway(1)).await;
        assert_close(&mut server, Code::H3_ID_ERROR).await;
    };
    tokio::join!(client, server);
}

async fn a_shutdown_rejects_new_requests<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (_driver, mut client) = client::new(client).await.unwrap();
        let mut first = send_get(&mut client).await.unwrap();
        let mut second = send_get(&mut client).await.unwrap();
        response(&mut first).await.unwrap();
        let rejected = second.recv_response().await.unwrap_err();
        let StreamError::RemoteTerminate { code } = rejected else { panic!("{rejected:?}") };
        assert_eq!(code, Code::H3_REQUEST_REJECTED);
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let (_, mut stream) = next_request(&mut server).await;
        respond(&mut stream).await;
        drop(stream);
        server.shutdown(0).await.unwrap();
        assert!(server.accept().await.unwrap().is_none());
        server
    };
    tokio::join!(client, server);
}

async fn a_shutdown_permits_announced_requests<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        // h3 loses a frame of the control stream that arrives while its reserved stream opens.
        let mut builder = client::builder();
        let (mut driver, mut client) =
            builder.send_grease(false).build::<_, _, Bytes>(client).await.unwrap();
        let mut before = send_get(&mut client).await.unwrap();
        let mut during = send_get(&mut client).await.unwrap();
        response(&mut before).await.unwrap();
        response(&mut during).await.unwrap();
        // Until the driver has received GOAWAY.
        poll_fn(|context| {
            assert!(driver.poll_close(context).is_pending());
            if client.is_closing() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        let after = get(&mut client).await;
        assert!(matches!(after, Err(StreamError::RemoteClosing)), "{after:?}");
        drop((before, during, client));
        assert_closed_here(&drive(driver).await, Code::H3_NO_ERROR);
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let (_, mut before) = next_request(&mut server).await;
        server.shutdown(1).await.unwrap();
        let (_, mut during) = next_request(&mut server).await;
        respond(&mut before).await;
        respond(&mut during).await;
        drop((before, during));
        assert_closed_by_peer(&server.accept().await.err().unwrap(), Code::H3_NO_ERROR);
    };
    tokio::join!(client, server);
}

async fn a_shutdown_ends_when_idle<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (driver, mut client) = client::new(client).await.unwrap();
        // Nothing receives GOAWAY.
        while get(&mut client).await.is_ok() {}
        assert_closed_by_peer(&drive(driver).await, Code::H3_NO_ERROR);
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let mut count = 0;
        while let Some(resolver) = server.accept().await.unwrap() {
            let (_, mut stream) = resolver.resolve_request().await.unwrap();
            count += 1;
            if count == 4 {
                server.shutdown(2).await.unwrap();
            }
            respond(&mut stream).await;
        }
        assert_eq!(count, 6);
    };
    tokio::join!(client, server);
}

async fn a_client_shuts_down<B: Backend>() {
    let backend = B::new(LONG);
    let (client, server) = backend.pair().await;
    let client = async {
        let (mut driver, _client) = client::new(client).await.unwrap();
        driver.shutdown(0).await.unwrap();
        assert_closed_by_peer(&drive(driver).await, Code::H3_NO_ERROR);
    };
    let server = async {
        // h3 loses a frame of the control stream that arrives while its reserved stream opens.
        let mut builder = server::builder();
        let mut server: Server<B> = builder.send_grease(false).build(server).await.unwrap();
        assert!(server.accept().await.unwrap().is_none());
    };
    tokio::join!(client, server);
}

/// While a server waits for the rest of a header section, it still detects an error on the control
/// stream.
async fn an_incomplete_request_blocks_nothing<B: Backend>() {
    let backend = B::new(LONG);
    let (mut client, server) = backend.pair().await;
    let (accepted, is_accepted) = oneshot::channel();
    let client = async {
        let mut control = open_uni(&mut client, &Frames::control()).await;
        let mut head = Frames::new().headers(POST).bytes();
        head.pop();
        let _request = open_bidi(&mut client, &Frames::new().raw(&head)).await;
        is_accepted.await.unwrap();
        write(&mut control, &Frames::new().data(b"content")).await;
        assert_close(&mut client, Code::H3_FRAME_UNEXPECTED).await;
    };
    let server = async {
        let mut server: Server<B> = server::Connection::new(server).await.unwrap();
        let resolver = server.accept().await.unwrap().unwrap();
        accepted.send(()).unwrap();
        let (request, end) = tokio::join!(resolver.resolve_request(), server.accept());
        assert_closed_here(&end.err().unwrap(), Code::H3_FRAME_UNEXPECTED);
        let Err(StreamError::ConnectionError(ConnectionError::Local { error })) = request else {
            panic!()
        };
        assert!(matches!(error, LocalError::Application { .. }), "{error:?}");
    };
    tokio::join!(client, server);
}
