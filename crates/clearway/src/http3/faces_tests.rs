//! Tests that tasks and handlers behave in the same way: each test runs with both as the server.

mod bodies;
mod early;
mod endings;
mod exchanges;
mod peers;
mod program;
mod timeouts;

use std::sync::Arc;
use std::time::Duration;

use clearway_http3::{Config, Protocol};
use clearway_transport::TransportConfig;
use clearway_units::Random;
use http::{HeaderMap, Method, Request};

use self::program::{Answers, Record, Records, serve};
use super::accepting::Accepting;
use super::driver::Driver;
use super::exchanges::Shared;
use super::{Body, Client, Error, HandlerApplication, PROTOCOL, RecvBody, Timeouts};
use crate::wakes_tests::world::{Configs, Scene, Side, Wakes, World};
use crate::{Connection, driver, streams};

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: u64 = 256 << 10;
/// Number of requests that a server's tasks handle at a time.
const TASKS: usize = 8;

/// Interface with which the server responds to requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Face {
    Tasks,
    Handler,
}

/// Runs each test with tasks and with a handler.
macro_rules! over_each_face {
    ($($(#[$attribute:meta])* $test:ident)*) => {
        mod tasks {
            $($(#[$attribute])* #[test] fn $test() {
                super::$test(crate::http3::faces_tests::Face::Tasks);
            })*
        }
        mod handler {
            $($(#[$attribute])* #[test] fn $test() {
                super::$test(crate::http3::faces_tests::Face::Handler);
            })*
        }
    };
}
use over_each_face;

/// Replaces the server's tasks when the server uses a handler.
struct NoTasks;

impl Wakes for NoTasks {
    fn shard_wakes(&self) -> usize {
        0
    }
}

fn transport() -> TransportConfig {
    TransportConfig::builder()
        .initial_stream_receive_window(WINDOW)
        .max_stream_receive_window(WINDOW)
        .max_datagram_frame_size(Some(1500))
        .discover_path_mtu(false)
        .max_idle_timeout(None)
        .build()
        .unwrap()
}

fn configs() -> Configs {
    Configs::new(PROTOCOL, transport())
}

fn http3() -> Arc<Config> {
    Arc::new(Config { extended_connect: true, datagrams: true, ..Config::default() })
}

/// A server with the given interface, and a client that connects to it.
struct Pair<C> {
    world: World,
    client: C,
    records: Records,
    server: Option<Arc<Accepting>>,
}

impl<C> Scene for Pair<C> {
    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

impl<C> Pair<C> {
    fn of(
        face: Face,
        timeouts: Option<Timeouts>,
        configs: &Configs,
        client: Side,
        handle: C,
    ) -> Self {
        let (mut random, records) = (Random::from_number(2), Records::default());
        let server = match face {
            Face::Tasks => {
                let accepting = Arc::<Accepting>::default();
                accepting.add_shard();
                timeouts.into_iter().for_each(|timeouts| accepting.set_timeouts(timeouts));
                let shared = Shared::new(None);
                let listener = accepting.register(shared.clone(), &mut random);
                let driver = Driver::server(shared.clone(), listener, http3(), &mut random);
                let side: Side = (Box::new(driver), shared as Arc<dyn Wakes>);
                (Some(accepting), side)
            }
            Face::Handler => {
                let answers = Answers::new(records.clone(), timeouts);
                let config = Config::clone(&http3());
                let application = HandlerApplication::new(answers, config, &mut random);
                let side: Side = (Box::new(application), Arc::new(NoTasks) as Arc<dyn Wakes>);
                (None, side)
            }
        };
        let (server, side) = server;
        let mut world = World::with(configs, [client, side]);
        for accepting in server.iter().flat_map(|server| vec![server; TASKS]) {
            world.spawn(serve(accepting.clone(), records.clone()));
        }
        Self { world, client: handle, records, server }
    }

    /// Returns what the server program recorded for the request with this path.
    #[track_caller]
    fn record(&self, path: &str) -> Record {
        let records = self.records.lock().unwrap();
        records.get(path).cloned().unwrap_or_else(|| panic!("{path} was not seen: {records:?}"))
    }

    fn has_seen(&self, path: &str) -> bool {
        self.records.lock().unwrap().contains_key(path)
    }
}

impl Pair<Client> {
    /// Creates a connected client.
    fn new(face: Face) -> Self {
        let mut pair = Self::begin(face, None, &configs());
        pair.world.run_for(SECOND);
        pair
    }

    /// Creates a client that has begun to connect.
    fn begin(face: Face, timeouts: Option<Timeouts>, configs: &Configs) -> Self {
        let shared = Shared::new(None);
        let driver = Driver::client(shared.clone(), http3(), &mut Random::from_number(1));
        let side: Side = (Box::new(driver), shared.clone() as Arc<dyn Wakes>);
        Self::of(face, timeouts, configs, side, Client::of(shared))
    }

    /// Returns the status of the response to a request, its content and its trailers.
    #[track_caller]
    fn answer(&mut self, request: Request<Body>) -> (u16, Vec<u8>, Option<HeaderMap>) {
        let client = self.client.clone();
        let answer = self.get(async move {
            let response = client.send(request).await?;
            whole(response.status().as_u16(), response.into_body()).await
        });
        answer.unwrap()
    }
}

impl Pair<Connection> {
    /// Creates a client on whose streams a test can send arbitrary bytes. It has a session that
    /// allows early data if `configs` contains one.
    fn raw(face: Face, timeouts: Option<Timeouts>, configs: &Configs) -> Self {
        let shared = streams::Shared::new(None);
        let driver = driver::Driver::new(shared.clone());
        let side: Side = (Box::new(driver), shared.clone() as Arc<dyn Wakes>);
        let remote = "127.0.0.1:443".parse().unwrap();
        let pair = Pair::of(face, timeouts, configs, side, ());
        let Pair { mut world, records, server, .. } = pair;
        let connecting = crate::Connecting::new(shared, remote);
        let client = world.spawn(async move {
            match connecting.into_0rtt().await {
                Ok((connection, _)) => connection,
                Err(connecting) => connecting.await.unwrap(),
            }
        });
        let client = world.wait(&client, SECOND).expect("the client does not connect").1;
        Pair { world, client, records, server }
    }
}

async fn whole(
    status: u16,
    mut body: RecvBody,
) -> Result<(u16, Vec<u8>, Option<HeaderMap>), Error> {
    let content = body.bytes(8 << 20).await?;
    Ok((status, content.to_vec(), body.trailers().await?))
}

fn request(method: Method, path: &str, body: impl Into<Body>) -> Request<Body> {
    let uri = format!("https://localhost{path}");
    Request::builder().method(method).uri(uri).body(body.into()).unwrap()
}

fn get(path: &str) -> Request<Body> {
    request(Method::GET, path, Body::empty())
}

fn post(path: &str) -> Request<()> {
    request(Method::POST, path, Body::empty()).map(drop)
}

fn tunnel() -> Request<()> {
    let request = Request::builder().method(Method::CONNECT).uri("https://localhost/tunnel");
    request.extension(Protocol::new("connect-udp").unwrap()).body(()).unwrap()
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([("a".parse().unwrap(), "b".parse().unwrap())])
}
