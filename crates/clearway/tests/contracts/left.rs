//! Tests that requests leave nothing behind, no matter what their handlers do and how the requests
//! end: no handler or task, no memory held by the connection, and finally no connection.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use clearway::http3::{Body, Client, Code, Error, PendingResponse, RecvBody, SendBody, Server};
use clearway::{Endpoint, MemoryBudget};
use http::{Request, Response};
use http_body::Frame;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::responses::{FACES, Face, Panicking, configs};
use crate::support::{code, loopback, run};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of concurrent requests of one kind.
const REQUESTS: usize = 3;

/// The behavior of a handler.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Conduct {
    Answers,
    /// The handler responds when it gets permission.
    Waits,
    /// The handler sends an endless response.
    Streams,
    /// The handler begins a response, and withholds the rest.
    Stalls,
    Fails,
    Panics,
    PanicsLater,
    BodyPanics,
    ReadsUpload,
    IgnoresUpload,
    /// The handler waits for the rest of an upload, which never arrives.
    AwaitsUpload,
}

const CONDUCTS: [Conduct; 11] = [
    Conduct::Answers,
    Conduct::Waits,
    Conduct::Streams,
    Conduct::Stalls,
    Conduct::Fails,
    Conduct::Panics,
    Conduct::PanicsLater,
    Conduct::BodyPanics,
    Conduct::ReadsUpload,
    Conduct::IgnoresUpload,
    Conduct::AwaitsUpload,
];

impl Conduct {
    fn has_upload(self) -> bool {
        matches!(self, Self::ReadsUpload | Self::IgnoresUpload | Self::AwaitsUpload)
    }

    /// Returns whether the request ends without the client's help.
    fn ends(self) -> bool {
        !matches!(self, Self::Streams | Self::Stalls | Self::AwaitsUpload)
    }

    fn is_fault(self) -> bool {
        matches!(self, Self::Fails | Self::Panics | Self::PanicsLater | Self::BodyPanics)
    }
}

/// How requests end if they do not end by themselves.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Ending {
    /// The client reads the responses, and drops those that never end.
    Whole,
    /// The client drops everything immediately.
    DroppedAtOnce,
    /// The client drops everything once the handlers have begun.
    Dropped,
    ClientCloses,
    ServerCloses,
    /// The server is shut down while the handlers run, and they continue after that.
    ShutDown,
}

const ENDINGS: [Ending; 6] = [
    Ending::Whole,
    Ending::DroppedAtOnce,
    Ending::Dropped,
    Ending::ClientCloses,
    Ending::ServerCloses,
    Ending::ShutDown,
];

/// Counts existing handlers and tasks that they have started.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn begin(&self) -> Self {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.clone()
    }
}

/// Counts as one handler or task until it is dropped.
struct Guard(Alive);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A body that stalls after its first chunk.
struct Stalling {
    is_begun: bool,
    _guard: Guard,
}

impl http_body::Body for Stalling {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match std::mem::replace(&mut self.is_begun, true) {
            false => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"begin"))))),
            true => Poll::Pending,
        }
    }
}

/// A service whose handlers all behave in the same way.
#[derive(Clone)]
struct Service {
    conduct: Conduct,
    alive: Alive,
    begun: Arc<AtomicUsize>,
    /// The permission that handlers wait for, if any.
    permission: Option<Arc<Notify>>,
}

impl Service {
    async fn answer(self, request: Request<RecvBody>) -> Response<Body> {
        let guard = Guard(self.alive.begin());
        self.begun.fetch_add(1, Ordering::SeqCst);
        if let Some(permission) = &self.permission {
            permission.notified().await;
            permission.notify_one();
        }
        let mut upload = request.into_body();
        let body = match self.conduct {
            Conduct::Answers | Conduct::Waits | Conduct::IgnoresUpload => Body::full("fine"),
            Conduct::Stalls => Body::wrap(Stalling { is_begun: false, _guard: guard }),
            Conduct::Streams | Conduct::Fails => {
                let (sender, body) = Body::channel();
                tokio::spawn(async move {
                    let _guard = guard;
                    while sender.send("more").await.is_ok() {
                        if self.conduct == Conduct::Fails {
                            return sender.fail(io::Error::other("the disk is gone")).await;
                        }
                    }
                });
                body
            }
            Conduct::Panics => panic!("this panic is intended"),
            Conduct::PanicsLater => {
                tokio::task::yield_now().await;
                panic!("this panic is intended");
            }
            Conduct::BodyPanics => Body::wrap(Panicking(false)),
            Conduct::ReadsUpload | Conduct::AwaitsUpload => {
                while let Some(Ok(_)) = upload.chunk().await {}
                Body::full("fine")
            }
        };
        Response::new(body)
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, waiting).await.is_ok(), "{what}");
}

async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(TIMEOUT, future).await.unwrap_or_else(|_| panic!("{what}"))
}

fn serve(server: Arc<Server>, face: Face, service: Service) -> JoinHandle<()> {
    let answer = move |request| service.clone().answer(request);
    tokio::spawn(async move {
        match face {
            Face::Serve => server.serve(answer).await,
            Face::OnShards => server.serve_on_shards(answer).await,
            Face::Accept => {
                while let Some((request, responder)) = server.accept().await {
                    let answer = answer.clone();
                    tokio::spawn(async move {
                        let mut responder = responder;
                        let response = tokio::select! {
                            response = answer(request) => response,
                            _ = responder.cancelled() => return,
                        };
                        let _ = responder.respond(response).await;
                    });
                }
            }
        }
    })
}

/// The client's handles to a request.
type Begun = (Option<SendBody>, PendingResponse);

async fn begin(client: &Client, conduct: Conduct) -> Begun {
    let request = Request::post("https://localhost/").body(()).unwrap();
    if !conduct.has_upload() {
        return (None, client.start(request).unwrap());
    }
    let (mut send, pending) = client.open(request).unwrap();
    let _ = send.write_chunk(vec![1; 10_000]).await;
    if conduct == Conduct::AwaitsUpload {
        return (Some(send), pending);
    }
    let _ = send.finish().await;
    (None, pending)
}

/// The response is complete, is reset if the handler is at fault, or is dropped if it never ends.
async fn finish(case: &str, conduct: Conduct, (send, pending): Begun) {
    if conduct == Conduct::AwaitsUpload {
        return drop((send, pending));
    }
    let read = async {
        let mut body = pending.response().await?.into_body();
        match conduct.ends() {
            true => body.bytes(1 << 20).await.map(Some),
            false => body.chunk().await.unwrap().map(|_| None),
        }
    };
    match within(case, read).await {
        Err(Error::Reset(Code::INTERNAL_ERROR)) if conduct.is_fault() => {}
        Ok(None) => {}
        Ok(Some(body)) if !conduct.is_fault() => assert_eq!(body, "fine", "{case}"),
        other => panic!("{case}: {other:?}"),
    }
}

/// Runs requests of one kind that end in one way. Afterward, their connection must use as much
/// memory as before, and end.
async fn exchange(face: Face, conduct: Conduct, ending: Ending) {
    let case = &format!("{face:?}, {conduct:?}, {ending:?}");
    let (config, client_config) = configs();
    let budget = MemoryBudget::new(64 << 20);
    let server = Server::bind(loopback(), config.memory_budget(budget.clone())).unwrap();
    let server = Arc::new(server);
    let endpoint = Endpoint::client(loopback()).unwrap();
    let address = server.local_address();
    let connecting = Client::connect(&endpoint, &client_config, address, "localhost");
    let client = within(case, connecting).await.unwrap();
    let (alive, begun, permission) = (Alive::default(), Arc::default(), Arc::<Notify>::default());
    let waits = conduct == Conduct::Waits || ending == Ending::ShutDown;
    let service = Service {
        conduct,
        alive: alive.clone(),
        begun,
        permission: waits.then(|| permission.clone()),
    };
    let begun = service.begun.clone();
    let serving = serve(server.clone(), face, service);
    let mut requests = Vec::new();
    for _ in 0..REQUESTS {
        requests.push(begin(&client, conduct).await);
    }
    if ending != Ending::DroppedAtOnce {
        until(case, || begun.load(Ordering::SeqCst) == REQUESTS).await;
    }
    let shutting_down = (ending == Ending::ShutDown).then(|| {
        let server = server.clone();
        tokio::spawn(async move { server.shutdown().await })
    });
    if ending == Ending::ShutDown {
        until(case, || !client.is_open()).await;
    }
    match ending {
        Ending::Whole | Ending::ShutDown => {
            permission.notify_one();
            for request in requests.drain(..) {
                finish(case, conduct, request).await;
            }
        }
        Ending::DroppedAtOnce | Ending::Dropped => requests.clear(),
        Ending::ClientCloses => client.close(Code::NO_ERROR),
        Ending::ServerCloses => server.endpoint().close(code(0), b"bye"),
    }
    until(&format!("{case}: a handler continues"), || alive.0.load(Ordering::SeqCst) == 0).await;
    // Requests that still wait now get an error.
    for (_, pending) in requests {
        let _ = within(case, pending.response()).await;
    }
    client.close(Code::NO_ERROR);
    if let Some(shutting_down) = shutting_down {
        within(&format!("{case}: the shutdown does not end"), shutting_down).await.unwrap();
    }
    server.endpoint().close(code(0), b"bye");
    within(&format!("{case}: serving does not end"), serving).await.unwrap();
    for endpoint in [server.endpoint(), &endpoint] {
        within(&format!("{case}: a connection is left"), endpoint.wait_idle()).await;
        assert_eq!(endpoint.statistics().connections, 0, "{case}");
    }
    until(&format!("{case}: memory is left"), || budget.statistics().held == 0).await;
}

#[test]
fn nothing_is_left_of_requests_whatever_their_handlers_do() {
    run(async {
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        for ending in ENDINGS {
            let mut together = Vec::new();
            for face in FACES {
                for conduct in CONDUCTS {
                    together.push(tokio::spawn(exchange(face, conduct, ending)));
                }
            }
            for exchange in together {
                exchange.await.unwrap();
            }
        }
        until("a task is left", || tasks() == before).await;
    });
}
