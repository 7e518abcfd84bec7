//! Tests of endpoint resources: descriptors, threads and tasks end with their owners.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clearway::http3::{Client, PROTOCOL, Server};
use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, Endpoint, ServerConfig};
use http::{Request, Response};
use tokio::runtime::Runtime;

use crate::programs::{is_program, run_program};
use crate::support::{Pair, identity, loopback};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until `is_so` returns true; fails if that takes too long.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn descriptors() -> usize {
    entries("/proc/self/fd")
}

fn threads() -> usize {
    entries("/proc/self/task")
}

#[test]
fn dropped_endpoints_leave_no_descriptor_and_no_thread() {
    run_program("resources::program_with_endpoints", None);
}

#[test]
#[ignore = "a program of another test"]
fn program_with_endpoints() {
    if !is_program() {
        return;
    }
    // Opens the resources that the process opens only once.
    drop(Endpoint::client(loopback()).unwrap());
    wait_until("the first thread ends", || threads() <= 2);
    let before = (descriptors(), threads());
    let endpoints: Vec<_> = (0..50).map(|_| Endpoint::client(loopback()).unwrap()).collect();
    assert!(descriptors() >= before.0 + 100 && threads() == before.1 + 50);
    drop(endpoints);
    // No other endpoint is started.
    wait_until("all threads end", || threads() == before.1);
    wait_until("all descriptors are closed", || descriptors() == before.0);
}

#[test]
fn a_runtime_that_shuts_down_ends_its_tasks_on_shards_without_a_panic() {
    run_program("resources::program_with_runtimes", None);
}

/// A task that continually waits for tokio timers. Dropping the task drops `alive`.
async fn ticking(interval: Duration, alive: Sender<()>) {
    loop {
        tokio::time::sleep(interval).await;
        if alive.send(()).is_err() {
            return;
        }
    }
}

/// Waits until all senders are dropped.
fn wait_for_end(what: &str, alive: &Receiver<()>) {
    let began = Instant::now();
    loop {
        match alive.recv_timeout(TIMEOUT) {
            Err(RecvTimeoutError::Disconnected) => return,
            _ => assert!(began.elapsed() < TIMEOUT, "{what} continues"),
        }
    }
}

#[test]
#[ignore = "a program of another test"]
fn program_with_runtimes() {
    if !is_program() {
        return;
    }
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(1);
    }));
    tasks_of_requests_end_with_the_runtime();
    tasks_of_connections_end_with_the_runtime();
    for round in 0..50 {
        a_runtime_ends_while_its_tasks_run(round);
    }
}

fn tasks_of_requests_end_with_the_runtime() {
    let runtime = Runtime::new().unwrap();
    let identity = identity();
    let mut roots = RootCertStore::empty();
    roots.add(identity.certificate.clone()).unwrap();
    let config = ServerConfig::new(vec![identity.certificate], identity.key);
    let server = std::sync::Arc::new(Server::bind(loopback(), config).unwrap());
    let endpoint = Endpoint::client(loopback()).unwrap();
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    let (began, begun) = channel();
    let (alive, living) = channel();
    let serving = server.clone();
    runtime.spawn(async move {
        let service = move |_| {
            let (began, alive) = (began.clone(), alive.clone());
            async move {
                began.send(()).unwrap();
                ticking(Duration::from_secs(30), alive).await;
                Response::new("")
            }
        };
        serving.serve_on_shards(service).await;
    });
    let other = Runtime::new().unwrap();
    let address = server.local_address();
    let connecting = Client::connect(&endpoint, &config, address, "localhost");
    let client = other.block_on(connecting).unwrap();
    let request = || Request::get("https://localhost/").body(()).unwrap();
    let waiting: Vec<_> = (0..3).map(|_| client.start(request()).unwrap()).collect();
    for _ in &waiting {
        begun.recv_timeout(TIMEOUT).unwrap();
    }
    drop(runtime);
    // The requests are reset, and so is a later request. Nothing else waits for the tasks.
    for pending in waiting {
        assert!(other.block_on(pending.response()).is_err());
    }
    assert!(other.block_on(client.send(request())).is_err());
    drop(client);
    drop(server);
    wait_for_end("a task of a request", &living);
}

fn tasks_of_connections_end_with_the_runtime() {
    let (first, second) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let pair = Pair::new();
    let (client, server) = first.block_on(pair.connect());
    let (alive, living) = channel();
    first.block_on(async {
        for interval in [Duration::from_millis(1), Duration::from_secs(30)] {
            client.spawn(ticking(interval, alive.clone()));
            pair.client.spawn(ticking(interval, alive.clone()));
        }
    });
    drop(alive);
    living.recv_timeout(TIMEOUT).unwrap();
    drop(first);
    wait_for_end("a task of a connection", &living);
    // The connection itself continues, including tasks inside another runtime or none.
    let (done, is_done) = channel();
    let task = {
        let (client, done) = (client.clone(), done.clone());
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            client.open_uni().await.unwrap().finish_with("second".into()).await.unwrap();
            done.send(()).unwrap();
        }
    };
    second.block_on(async { client.spawn(task) });
    is_done.recv_timeout(TIMEOUT).unwrap();
    client.spawn(async move { done.send(()).unwrap() });
    is_done.recv_timeout(TIMEOUT).unwrap();
    let read = async { server.accept_uni().await.unwrap().read_to_end(10).await.unwrap() };
    assert_eq!(second.block_on(read), b"second");
    // A runtime that has ended accepts no more tasks.
    let handle = second.handle().clone();
    drop(second);
    let (alive, living) = channel();
    let _guard = handle.enter();
    client.spawn(ticking(Duration::ZERO, alive));
    wait_for_end("a task of a runtime that has ended", &living);
}

/// A runtime can end at any time, even while a task is being polled.
fn a_runtime_ends_while_its_tasks_run(round: u64) {
    let runtime = match round % 2 {
        0 => tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        _ => Runtime::new().unwrap(),
    };
    let endpoint = Endpoint::client(loopback()).unwrap();
    let (alive, living) = channel();
    runtime.block_on(async {
        for _ in 0..4 {
            let alive = alive.clone();
            endpoint.spawn(async move {
                while alive.send(()).is_ok() {
                    // The sleep is ready immediately, so the task is polled again immediately.
                    tokio::time::sleep(Duration::ZERO).await;
                    tokio::task::yield_now().await;
                }
            });
        }
    });
    drop(alive);
    // The timers of a current-thread runtime advance only while it runs.
    runtime.block_on(async {
        for _ in 0..round {
            while living.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
        }
    });
    drop(runtime);
    wait_for_end("a task of an endpoint", &living);
}
