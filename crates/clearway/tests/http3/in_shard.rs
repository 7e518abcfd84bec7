//! Tests of servers that respond inside the shard.

use bytes::{Bytes, BytesMut};
use clearway::Endpoint;
use clearway::Statistics;
use clearway::http3::{
    BodySource, Client, Code, Config, Error, Handler, RequestStream, serve_in_shard,
};
use http::{HeaderMap, Request, Response};
use std::collections::BTreeMap;
use std::sync::mpsc;

use crate::support::{configs, get, loopback, pattern, post, run};

/// A body with this many zero bytes.
struct Zeros(usize);

impl BodySource for Zeros {
    fn next(&mut self, wanted: usize) -> Option<Bytes> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let length = self.0.min(wanted).min(ZEROS.len());
        self.0 -= length;
        (length > 0).then(|| Bytes::from_static(&ZEROS[..length]))
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-end", "zero".parse().unwrap());
        Some(trailers)
    }
}

/// Responds with zeros to GET, and with an echo to POST.
struct Zero {
    uploads: BTreeMap<u64, BytesMut>,
    failures: mpsc::Sender<Code>,
    ended: mpsc::Sender<Statistics>,
}

impl Handler for Zero {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        if request.method() == "POST" {
            self.uploads.insert(stream.id(), BytesMut::new());
            return;
        }
        let length = request.uri().path().trim_start_matches("/zero/").parse().unwrap();
        stream.respond(&Response::new(()), Some(Box::new(Zeros(length)))).unwrap();
    }

    fn data(&mut self, stream: &mut RequestStream<'_>, content: Bytes) {
        if let Some(upload) = self.uploads.get_mut(&stream.id()) {
            upload.extend_from_slice(&content);
        }
    }

    fn finished(&mut self, stream: &mut RequestStream<'_>, _: Option<HeaderMap>) {
        if let Some(upload) = self.uploads.remove(&stream.id()) {
            stream.respond(&Response::new(()), Some(Box::new(upload.freeze()))).unwrap();
        }
    }

    fn failed(&mut self, _: u64, code: Code) {
        let _ = self.failures.send(code);
    }

    fn closed(&mut self, statistics: &Statistics) {
        let _ = self.ended.send(*statistics);
    }
}

struct Running {
    server: Endpoint,
    client: Client,
    failures: mpsc::Receiver<Code>,
    ended: mpsc::Receiver<Statistics>,
}

async fn start() -> Running {
    let (server, config) = configs(Default::default());
    let (failed, failures) = mpsc::channel();
    let (gone, ended) = mpsc::channel();
    let server = serve_in_shard(loopback(), server, Config::default(), move |_| Zero {
        uploads: BTreeMap::new(),
        failures: failed.clone(),
        ended: gone.clone(),
    });
    let server = server.unwrap();
    let endpoint = Endpoint::client(loopback()).unwrap();
    let client = Client::connect(&endpoint, &config, server.local_address(), "localhost");
    Running { client: client.await.unwrap(), server, failures, ended }
}

#[test]
fn body_sources_are_sent_completely() {
    run(async {
        let running = start().await;
        let mut response = running.client.send(get("/zero/20000000")).await.unwrap();
        let mut length = 0;
        while let Some(chunk) = response.body_mut().chunk().await {
            let chunk = chunk.unwrap();
            assert!(chunk.iter().all(|byte| *byte == 0));
            length += chunk.len();
        }
        assert_eq!(length, 20_000_000);
        let trailers = response.body_mut().trailers().await.unwrap().unwrap();
        assert_eq!(trailers["x-end"], "zero");
        running.client.shutdown().await;
        running.server.wait_idle().await;
        assert!(running.ended.try_recv().unwrap().bytes_sent > 20_000_000);
    });
}

#[test]
fn uploads_are_passed_to_the_handler() {
    run(async {
        let running = start().await;
        let content = pattern(2_000_000);
        let mut response = running.client.send(post("/", content.clone())).await.unwrap();
        assert!(response.body_mut().bytes(content.len()).await.unwrap() == content);
    });
}

#[test]
fn a_cancelled_request_is_reported_to_the_handler() {
    run(async {
        let running = start().await;
        let response = running.client.send(get("/zero/1000000000000")).await.unwrap();
        drop(response);
        // The connection continues; once the response to this request has arrived, the server has
        // processed the cancellation.
        let mut response = running.client.send(get("/zero/1")).await.unwrap();
        assert_eq!(response.body_mut().bytes(10).await.unwrap().len(), 1);
        assert_eq!(running.failures.try_recv().unwrap(), Code::REQUEST_CANCELLED);
    });
}

#[test]
fn closing_the_endpoint_ends_its_clients() {
    run(async {
        let running = start().await;
        // Before the handshake is confirmed, the server might not send its reason for closing (RFC 9000 §10.2.3).
        running.client.send(get("/zero/1")).await.unwrap();
        running.server.close(clearway::VarInt::from_u32(0x100), b"maintenance");
        let error = running.client.closed().await;
        assert!(matches!(error, Error::Connection(_)), "{error}");
        assert!(error.to_string().contains("H3_NO_ERROR, reason: \"maintenance\""), "{error}");
        running.server.wait_idle().await;
    });
}

/// Responds, and shuts the connection down.
struct Last(mpsc::Sender<String>);

impl Handler for Last {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        let _ = self.0.send(request.uri().path().to_owned());
        stream.shut_down_connection();
        stream.respond(&Response::new(()), Some(Box::new(Zeros(1_000_000)))).unwrap();
    }
}

/// The responses in progress are completed before the connection is closed (RFC 9114 §5.2).
#[test]
fn a_handler_shuts_its_connection_down() {
    run(async {
        let (server, config) = configs(Default::default());
        let (seen, paths) = mpsc::channel();
        let make = move |_: &clearway::transport::Incoming| Last(seen.clone());
        let server = serve_in_shard(loopback(), server, Config::default(), make).unwrap();
        let endpoint = Endpoint::client(loopback()).unwrap();
        let address = server.local_address();
        let client = Client::connect(&endpoint, &config, address, "localhost").await.unwrap();
        let mut response = client.send(get("/only")).await.unwrap();
        assert_eq!(response.body_mut().bytes(2_000_000).await.unwrap().len(), 1_000_000);
        let error = client.closed().await;
        assert!(matches!(error, Error::Connection(_)), "{error}");
        assert_eq!(paths.recv().unwrap(), "/only");
    });
}
