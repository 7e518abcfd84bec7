//! The same server program for tasks and for a handler. The path of a request determines the
//! program's behavior.

use core::future::poll_fn;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use clearway_http3::{Code, Priority};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Request, Response};

use super::super::accepting::Accepting;
use super::super::{
    Body, BodySource, Error, Handler, Peer, RecvBody, RequestStream, Responder, SendBody, Timeouts,
};
use super::trailers;

/// A program's record of a request.
#[derive(Clone, Default, Debug)]
pub(super) struct Record {
    pub(super) content: Vec<u8>,
    pub(super) trailers: Option<HeaderMap>,
    /// Whether the request is complete.
    pub(super) is_whole: bool,
    /// The error codes with which requests were reset or responses stopped.
    pub(super) failed: Vec<Code>,
    pub(super) datagrams: Vec<Bytes>,
    pub(super) peer: Option<Peer>,
}

/// The requests by their paths.
pub(super) type Records = Arc<Mutex<BTreeMap<String, Record>>>;

/// Path under which handler calls for unknown requests are recorded.
pub(super) const UNKNOWN: &str = "unknown";

/// The content of large responses.
pub(super) const LARGE: usize = 3_000_000;

fn note(records: &Records, path: &str, change: impl FnOnce(&mut Record)) {
    change(records.lock().unwrap().entry(path.to_owned()).or_default());
}

fn interim() -> Response<()> {
    Response::builder().status(103).body(()).unwrap()
}

fn ok(path: &str) -> Response<()> {
    let response = Response::builder();
    let response = match path {
        "/short" => response.header(CONTENT_LENGTH, 100),
        "/sized" | "/bare" => response.header(CONTENT_LENGTH, "content".len()),
        _ => response,
    };
    response.body(()).unwrap()
}

/// Returns whether the response to a request is sent only when the request is complete.
fn is_answered_at_its_end(path: &str) -> bool {
    ["/echo", "/late", "/priority"].contains(&path)
}

/// Returns the error code of a task's error.
fn code(error: &Error) -> Option<Code> {
    match error {
        Error::Reset(code) | Error::Stopped(code) => Some(*code),
        Error::TimedOut => Some(Code::REQUEST_CANCELLED),
        _ => None,
    }
}

/// Responds to requests in a task.
pub(super) async fn serve(server: Arc<Accepting>, records: Records) {
    while let Some((request, responder)) = poll_fn(|context| server.poll_accept(context)).await {
        let path = request.uri().path().to_owned();
        note(&records, &path, |record| record.peer = Peer::of(&request).cloned());
        let is_tunnel = request.method() == Method::CONNECT;
        let body = request.into_body();
        let task = Task { path, records: records.clone() };
        let outcome = match is_tunnel {
            true => task.tunnel(body, responder).await,
            false => task.answer(&server, body, responder).await,
        };
        if let Err(error) = outcome {
            note(&task.records, &task.path, |record| record.failed.extend(code(&error)));
        }
    }
}

struct Task {
    path: String,
    records: Records,
}

impl Task {
    async fn answer(
        &self,
        server: &Accepting,
        mut body: RecvBody,
        mut responder: Responder,
    ) -> Result<(), Error> {
        let path = &*self.path;
        match path {
            "/reset" => {
                responder.reject();
                return Ok(());
            }
            "/stop" => {
                body.stop(Code::EXCESSIVE_LOAD);
                return responder.respond(Response::new("stopped")).await;
            }
            "/interim" => responder.inform(interim())?,
            "/" => server.close(false),
            "/late" => drop(responder.cancelled().await),
            _ => {}
        }
        if is_answered_at_its_end(path) {
            self.read(&mut body).await?;
            let response = self.response(&responder);
            return responder.respond(response).await;
        }
        // The rest of the request is read while the response is sent.
        let response = self.response(&responder);
        let (read, responded) = tokio::join!(self.read(&mut body), responder.respond(response));
        responded.and(read)
    }

    async fn read(&self, body: &mut RecvBody) -> Result<(), Error> {
        while let Some(chunk) = body.chunk().await {
            let chunk = chunk?;
            note(&self.records, &self.path, |record| record.content.extend_from_slice(&chunk));
        }
        let trailers = body.trailers().await?;
        note(&self.records, &self.path, |record| {
            record.trailers = trailers;
            record.is_whole = true;
        });
        Ok(())
    }

    fn response(&self, responder: &Responder) -> Response<Body> {
        let record = self.records.lock().unwrap()[&self.path].clone();
        let content = content(&self.path, record.content, responder.priority());
        let body = Body::full(content);
        ok(&self.path).map(|()| match self.path == "/trailers" {
            true => body.with_trailers(trailers()),
            false => body,
        })
    }

    /// Echoes datagrams.
    async fn tunnel(&self, mut body: RecvBody, responder: Responder) -> Result<(), Error> {
        let mut datagrams = body.datagrams();
        let sending: SendBody = responder.start(ok(&self.path));
        while let Some(datagram) = datagrams.receive().await {
            let datagram = datagram?;
            note(&self.records, &self.path, |record| record.datagrams.push(datagram.clone()));
            let _ = datagrams.send(datagram);
        }
        self.read(&mut body).await?;
        sending.finish().await
    }
}

fn content(path: &str, received: Vec<u8>, priority: Priority) -> Bytes {
    match path {
        "/large" => vec![7; LARGE].into(),
        "/echo" => received.into(),
        "/priority" => priority.to_string().into(),
        _ => "content".into(),
    }
}

/// Responds to requests in the shard.
pub(super) struct Answers {
    records: Records,
    timeouts: Option<Timeouts>,
    paths: BTreeMap<u64, String>,
}

/// The content and the trailers of a response.
struct Source(VecDeque<Bytes>, Option<HeaderMap>);

impl BodySource for Source {
    fn next(&mut self, _: usize) -> Option<Bytes> {
        self.0.pop_front()
    }

    fn trailers(&mut self) -> Option<HeaderMap> {
        self.1.take()
    }
}

impl Answers {
    pub(super) fn new(records: Records, timeouts: Option<Timeouts>) -> Self {
        Self { records, timeouts, paths: BTreeMap::new() }
    }

    fn path(&self, stream: u64) -> &str {
        self.paths.get(&stream).map_or(UNKNOWN, String::as_str)
    }

    fn note(&self, stream: u64, change: impl FnOnce(&mut Record)) {
        note(&self.records, self.path(stream), change);
    }

    fn respond(&self, stream: &mut RequestStream<'_>) {
        let path = self.path(stream.id());
        let received = self.records.lock().unwrap()[path].content.clone();
        let content = content(path, received, stream.priority());
        let trailers = (path == "/trailers").then(trailers);
        let source: Box<dyn BodySource> = Box::new(Source([content].into(), trailers));
        let _ = stream.respond(&ok(path), Some(source).filter(|_| path != "/bare"));
    }
}

impl Handler for Answers {
    fn request(&mut self, stream: &mut RequestStream<'_>, request: Request<()>) {
        let path = request.uri().path().to_owned();
        let peer = stream.peer();
        note(&self.records, &path, |record| record.peer = Some(peer));
        self.paths.insert(stream.id(), path.clone());
        match &*path {
            "/reset" => return stream.reset(Code::REQUEST_REJECTED),
            "/stop" => {
                stream.stop(Code::EXCESSIVE_LOAD);
                let body = Bytes::from("stopped");
                return stream.respond(&ok(&path), Some(Box::new(body))).unwrap();
            }
            "/interim" => stream.inform(&interim()).unwrap(),
            "/" => stream.shut_down_connection(),
            _ => {}
        }
        if request.method() != Method::CONNECT && !is_answered_at_its_end(&path) {
            self.respond(stream);
        }
    }

    fn data(&mut self, stream: &mut RequestStream<'_>, content: Bytes) {
        self.note(stream.id(), |record| record.content.extend_from_slice(&content));
    }

    fn datagram(&mut self, stream: &mut RequestStream<'_>, payload: Bytes) {
        let _ = stream.send_datagram(&payload);
        self.note(stream.id(), |record| record.datagrams.push(payload));
    }

    fn finished(&mut self, stream: &mut RequestStream<'_>, trailers: Option<HeaderMap>) {
        self.note(stream.id(), |record| {
            record.trailers = trailers;
            record.is_whole = true;
        });
        let path = self.path(stream.id());
        if is_answered_at_its_end(path) || path == "/tunnel" {
            self.respond(stream);
        }
    }

    fn timeouts(&self) -> Option<Timeouts> {
        self.timeouts
    }

    fn failed(&mut self, stream: u64, code: Code) {
        self.note(stream, |record| record.failed.push(code));
    }
}
