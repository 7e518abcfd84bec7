//! Tests of requests in early data (RFC 8470).

use clearway::http3::{Client, Config, Early, Handler, RequestStream, Server, serve_in_shard};
use http::{Request, Response, StatusCode};
use tokio::sync::mpsc;

use crate::early_support::{Gate, Known, Store, answer, serve};
use crate::support::{get, loopback, post, run};

/// Returns a server for which the client has a session, with responses written by the test, and the
/// path to it.
async fn begin() -> (Known, Server, Gate) {
    let known = Known::new().await;
    let server = Server::bind(loopback(), known.site.server(&known.keys)).unwrap();
    let gate = Gate::before(server.local_address()).await;
    (known, server, gate)
}

#[test]
fn a_get_in_early_data_is_marked_and_answered() {
    run(async {
        let (known, server, gate) = begin().await;
        let client = known.connect(gate.address()).await;
        let pending = client.start(get("/first")).unwrap();
        let (request, responder) = server.accept().await.unwrap();
        assert!(Early::is_in(&request), "the client has received nothing yet");
        assert_eq!(request.uri().path(), "/first");
        gate.open();
        let (responded, response) =
            tokio::join!(responder.respond(Response::new("hello")), pending.response());
        responded.unwrap();
        assert_eq!(response.unwrap().body_mut().bytes(100).await.unwrap(), "hello");
        assert!(client.early_data_accepted().await);

        // The handshake is complete.
        let pending = client.start(get("/second")).unwrap();
        let (request, responder) = server.accept().await.unwrap();
        assert!(!Early::is_in(&request));
        responder.respond(Response::new("again")).await.unwrap();
        assert_eq!(pending.response().await.unwrap().status(), 200);
    });
}

/// A client does not send requests early that are not safe to replay (RFC 8470 §4). Such a request
/// waits for the end of the handshake, without delaying other requests.
#[test]
fn a_post_waits_for_the_end_of_the_handshake() {
    run(async {
        let (known, server, gate) = begin().await;
        let client = known.connect(gate.address()).await;
        let waiting = [
            client.start(post("/post", "content")).unwrap(),
            client.start(crate::support::request("GET", "/content", "content")).unwrap(),
        ];
        let early = client.start(get("/get")).unwrap();
        let (request, first) = server.accept().await.unwrap();
        assert_eq!((request.uri().path(), Early::is_in(&request)), ("/get", true));
        gate.open();
        first.respond(Response::new("")).await.unwrap();
        for _ in &waiting {
            let (request, responder) = server.accept().await.unwrap();
            assert!(!Early::is_in(&request), "{}", request.uri());
            responder.respond(Response::new("")).await.unwrap();
        }
        assert_eq!(early.response().await.unwrap().status(), 200);
        for pending in waiting {
            assert_eq!(pending.response().await.unwrap().status(), 200);
        }
    });
}

/// A POST without content, using only QPACK's static table (RFC 9204 §4.5).
const POST: &[u8] = b"\x01\x10\x00\x00\xd4\xd7\xc1\x50\x09localhost";
const GET: &[u8] = b"\x01\x10\x00\x00\xd1\xd7\xc1\x50\x09localhost";
/// `:status: 425` in QPACK's static table.
const TOO_EARLY: &[u8] = &[0xff, 0x07];

/// The application never gets a request that is rejected with 425 (RFC 8470 §5.2).
#[test]
fn a_post_in_early_data_is_refused_with_425() {
    run(async {
        let (known, server, gate) = begin().await;
        let client = known.connect_raw(gate.address()).await;
        let mut control = client.open_uni().await.unwrap();
        control.write_all(&[0x00, 0x04, 0x00]).await.unwrap();
        let (mut post, mut refusal) = client.open_bi().await.unwrap();
        post.write_all(POST).await.unwrap();
        post.finish().unwrap();
        let (mut get, mut response) = client.open_bi().await.unwrap();
        get.write_all(GET).await.unwrap();
        get.finish().unwrap();
        let (request, responder) = server.accept().await.unwrap();
        assert_eq!((request.method().as_str(), Early::is_in(&request)), ("GET", true));
        gate.open();
        responder.respond(Response::new("fine")).await.unwrap();
        assert!(response.read_to_end(1000).await.unwrap().ends_with(b"fine"));
        let refusal = refusal.read_to_end(1000).await.unwrap();
        assert!(refusal.windows(2).any(|bytes| bytes == TOO_EARLY), "{refusal:x?}");

        // The same request is served after the handshake.
        let (mut post, _response) = client.open_bi().await.unwrap();
        post.write_all(POST).await.unwrap();
        post.finish().unwrap();
        let (request, _responder) = server.accept().await.unwrap();
        assert_eq!((request.method().as_str(), Early::is_in(&request)), ("POST", false));
    });
}

/// Reports the methods of requests, and whether they arrived early.
struct Marks(mpsc::UnboundedSender<(String, bool)>);

impl Handler for Marks {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        let _ = self.0.send((request.method().to_string(), Early::is_in(&request)));
        stream.respond(&Response::new(()), None).unwrap();
    }
}

/// Tests that a server that responds inside the shard sees which requests arrived early, and gets
/// none that is rejected with 425.
#[test]
fn a_handler_in_the_shard_gets_marked_requests_and_no_early_post() {
    run(async {
        let known = Known::new().await;
        let (seen, mut requests) = mpsc::unbounded_channel();
        let make = move |_: &clearway::transport::Incoming| Marks(seen.clone());
        let config = known.site.server(&known.keys);
        let server = serve_in_shard(loopback(), config, Config::default(), make).unwrap();
        let gate = Gate::before(server.local_address()).await;
        let client = known.connect_raw(gate.address()).await;
        let mut control = client.open_uni().await.unwrap();
        control.write_all(&[0x00, 0x04, 0x00]).await.unwrap();
        let mut responses = Vec::new();
        for request in [POST, GET] {
            let (mut send, receive) = client.open_bi().await.unwrap();
            send.write_all(request).await.unwrap();
            send.finish().unwrap();
            responses.push(receive);
        }
        assert_eq!(requests.recv().await.unwrap(), ("GET".to_owned(), true));
        gate.open();
        let refusal = responses[0].read_to_end(1000).await.unwrap();
        assert!(refusal.windows(2).any(|bytes| bytes == TOO_EARLY), "{refusal:x?}");
        assert!(!responses[1].read_to_end(1000).await.unwrap().is_empty());
        let (mut send, _response) = client.open_bi().await.unwrap();
        send.write_all(POST).await.unwrap();
        send.finish().unwrap();
        assert_eq!(requests.recv().await.unwrap(), ("POST".to_owned(), false));
    });
}

/// Responds to the next request with `status`. Returns whether the request arrived early.
async fn respond(server: &Server, status: StatusCode) -> bool {
    let (request, responder) = server.accept().await.unwrap();
    let response = Response::builder().status(status).body("").unwrap();
    let _ = responder.respond(response).await;
    Early::is_in(&request)
}

/// A client repeats a request once, after the handshake, if the response is 425 (RFC 8470 §5.2).
#[test]
fn a_get_that_is_too_early_is_sent_once_more() {
    for second in [StatusCode::OK, StatusCode::TOO_EARLY] {
        run(async {
            let (known, server, gate) = begin().await;
            let client = known.connect(gate.address()).await;
            let serving = async {
                let (request, responder) = server.accept().await.unwrap();
                assert!(Early::is_in(&request));
                gate.open();
                let too_early = Response::builder().status(StatusCode::TOO_EARLY).body("").unwrap();
                responder.respond(too_early).await.unwrap();
                assert!(!respond(&server, second).await, "the handshake is complete");
            };
            let (response, ()) = tokio::join!(client.send(get("/")), serving);
            assert_eq!(response.unwrap().status(), second);
            // There is no third attempt: the next request that arrives is this one.
            let (response, is_early) = tokio::join!(
                client.send(post("/", "content")),
                respond(&server, StatusCode::TOO_EARLY)
            );
            assert_eq!(response.unwrap().status(), StatusCode::TOO_EARLY, "not repeated");
            assert!(!is_early);
        });
    }
}

/// With two processes with different keys, or a process that was restarted with other keys, early
/// data is rejected, which costs only a round trip (RFC 9001 §4.6.2).
#[test]
fn rejected_requests_are_answered_after_the_handshake() {
    run(async {
        let known = Known::new().await;
        let others = clearway::TicketKeys::new(&[2; 32]);
        let server = serve(known.site.server(&others));
        let gate = Gate::before(server.local_address()).await;
        let client = known.connect(gate.address()).await;
        let requests: Vec<_> = (0..20).map(|_| client.start(get("/")).unwrap()).collect();
        gate.open();
        for request in requests {
            let mut response = request.response().await.unwrap();
            assert_eq!(response.body_mut().bytes(100).await.unwrap(), "late");
        }
        assert!(!client.early_data_accepted().await);
        assert_eq!(answer(&client).await, "late");
    });
}

/// A server that no longer accepts early data still resumes the session, and the requests arrive
/// after the handshake.
#[test]
fn a_server_without_early_data_answers_all_the_same() {
    run(async {
        let known = Known::new().await;
        let server = serve(known.site.server(&known.keys).early_data(false));
        let client: Client = known.connect(server.local_address()).await;
        assert_eq!(answer(&client).await, "late");
        assert!(!client.early_data_accepted().await);
    });
}

/// A task on the shard's thread connects and makes requests in one turn, before the first flight is
/// sent. A task on a runtime would be too late for most requests, since the server responds in less
/// than a millisecond.
#[test]
fn a_task_on_the_shards_thread_has_all_its_requests_in_the_first_flight() {
    run(async {
        let known = Known::new().await;
        let server = serve(known.site.server(&known.keys));
        let endpoint = known.endpoint.clone();
        let config = known.site.client(&Store::with(&known.session));
        let (sender, mut answers) = mpsc::unbounded_channel();
        endpoint.spawn({
            let (endpoint, address) = (endpoint.clone(), server.local_address());
            async move {
                let client = Client::connect(&endpoint, &config, address, "localhost").await;
                let client = client.unwrap();
                for _ in 0..40 {
                    let (client, sender) = (client.clone(), sender.clone());
                    client.clone().spawn(async move {
                        let mut response = client.send(get("/")).await.unwrap();
                        sender.send(response.body_mut().bytes(100).await.unwrap()).unwrap();
                    });
                }
            }
        });
        let mut count = 0;
        while let Some(answer) = answers.recv().await {
            assert_eq!(answer, "early");
            count += 1;
        }
        assert_eq!(count, 40);
    });
}
