//! Tests with several tasks that wait for the same event. Each occurrence wakes one task, even if a
//! woken task was dropped, and the end of the connection wakes all tasks.

use core::task::Poll;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use clearway::{Connection, Endpoint, SendStream, TransportConfig};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{Pair, code, run};

/// Number of waiting tasks.
const WAITERS: usize = 4;

/// Starts a waiting task, and returns once it waits.
async fn waiting<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let (began, begun) = oneshot::channel();
    let mut began = Some(began);
    let task = tokio::spawn(async move {
        let mut future = pin!(future);
        poll_fn(|context| {
            let poll = future.as_mut().poll(context);
            if let Some(began) = began.take() {
                let _ = began.send(poll.is_pending());
            }
            poll
        })
        .await
    });
    assert!(begun.await.unwrap(), "there is nothing to wait for");
    task
}

/// Starts several tasks that wait for the same event.
async fn several<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    make: impl Fn() -> F,
) -> Vec<JoinHandle<T>> {
    let mut tasks = Vec::new();
    for _ in 0..WAITERS {
        tasks.push(waiting(make()).await);
    }
    tasks
}

/// Waits for all tasks, which must end soon.
async fn all<T>(what: &str, tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut results = Vec::new();
    for task in tasks {
        let result = tokio::time::timeout(Duration::from_secs(5), task).await;
        results.push(result.unwrap_or_else(|_| panic!("{what}: a task is not woken")).unwrap());
    }
    results
}

fn transport() -> TransportConfig {
    TransportConfig::builder()
        .max_concurrent_unidirectional_streams(WAITERS as u64)
        .max_concurrent_bidirectional_streams(WAITERS as u64)
        .max_datagram_frame_size(Some(65_535))
        .build()
        .unwrap()
}

/// Opens as many streams as the peer allows.
async fn exhaust(client: &Connection) -> Vec<SendStream> {
    let mut streams = Vec::new();
    for _ in 0..WAITERS {
        let mut stream = client.open_uni().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        streams.push(stream);
        let (mut stream, _) = client.open_bi().await.unwrap();
        stream.write_all(b"x").await.unwrap();
        streams.push(stream);
    }
    streams
}

/// An event that ends a connection.
#[derive(Clone, Copy, Debug)]
enum End {
    ByPeer,
    ByUs,
    EndpointClosed,
    PeersEndpointDropped,
}

const ENDS: [End; 4] = [End::ByPeer, End::ByUs, End::EndpointClosed, End::PeersEndpointDropped];

#[test]
fn the_end_of_a_connection_wakes_everyone() {
    run(async {
        for end in ENDS {
            let pair = Pair::with(transport(), |server| server.transport(transport()));
            let (client, server) = pair.connect().await;
            let streams = exhaust(&client).await;
            macro_rules! on_client {
                ($name:ident => $future:expr) => {{
                    let client = client.clone();
                    several(move || {
                        let $name = client.clone();
                        async move { drop($future) }
                    })
                    .await
                }};
            }
            let waits = [
                ("closed", on_client!(it => it.closed().await)),
                ("open_uni", on_client!(it => it.open_uni().await.map(drop).unwrap_err())),
                ("open_bi", on_client!(it => it.open_bi().await.map(drop).unwrap_err())),
                ("accept_uni", on_client!(it => it.accept_uni().await.map(drop).unwrap_err())),
                ("accept_bi", on_client!(it => it.accept_bi().await.map(drop).unwrap_err())),
                ("read_datagram", on_client!(it => it.read_datagram().await.unwrap_err())),
                ("path_event", on_client!(it => it.path_event().await.map(drop).unwrap_err())),
            ];
            let mut server = Some(server);
            let Pair { server: accepting, client: endpoint, .. } = pair;
            let mut accepting = Some(accepting);
            match end {
                End::ByPeer => server.as_ref().unwrap().close(code(1), b"bye"),
                End::ByUs => client.close(code(1), b"bye"),
                End::EndpointClosed => endpoint.close(code(1), b"bye"),
                End::PeersEndpointDropped => {
                    drop(server.take());
                    drop(accepting.take());
                }
            }
            for (what, tasks) in waits {
                all(&format!("{what}, {end:?}"), tasks).await;
            }
            drop((streams, server, accepting));
        }
    });
}

/// Each stream and datagram goes to one task, even if a task that waited earlier was dropped.
#[test]
fn what_comes_for_each_wakes_each() {
    run(async {
        for dropped in 0..WAITERS {
            let pair = Pair::with(transport(), |server| server.transport(transport()));
            let (client, server) = pair.connect().await;
            let make = |server: &Connection| {
                let server = server.clone();
                move || {
                    let server = server.clone();
                    async move {
                        let mut stream = server.accept_uni().await.unwrap();
                        stream.read_to_end(10).await.unwrap()
                    }
                }
            };
            let mut streams = several(make(&server)).await;
            let of_datagrams = server.clone();
            let mut datagrams = several(move || {
                let server = of_datagrams.clone();
                async move { server.read_datagram().await.unwrap() }
            })
            .await;
            for number in 0..WAITERS as u8 {
                let mut stream = client.open_uni().await.unwrap();
                stream.finish_with(vec![number].into()).await.unwrap();
                client.send_datagram(Bytes::from(vec![number])).unwrap();
                if usize::from(number) == dropped {
                    // The task may already have been woken.
                    streams.remove(dropped).abort();
                    datagrams.remove(dropped).abort();
                    streams.push(tokio::spawn(make(&server)()));
                    let server = server.clone();
                    datagrams
                        .push(tokio::spawn(async move { server.read_datagram().await.unwrap() }));
                }
            }
            // Items that a dropped task had already taken are lost with it; everything else is
            // delivered.
            let streams = tokio::time::timeout(Duration::from_secs(5), first(streams)).await;
            assert!(streams.is_ok(), "{dropped}: a stream was not delivered to a waiting task");
            let datagrams = tokio::time::timeout(Duration::from_secs(5), first(datagrams)).await;
            assert!(datagrams.is_ok(), "{dropped}: a datagram was not delivered to a waiting task");
        }
    });
}

/// Waits for all tasks except one: the dropped task may have taken one stream or datagram.
async fn first<T>(tasks: Vec<JoinHandle<T>>) {
    let mut tasks: Vec<_> = tasks.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        if tasks.len() <= 1 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Credit for several streams lets that many tasks continue, even if the first of them was dropped.
#[test]
fn credit_for_several_streams_wakes_several() {
    run(async {
        for drops in [false, true] {
            let pair = Pair::with(transport(), |server| server.transport(transport()));
            let (client, server) = pair.connect().await;
            let opened = exhaust(&client).await;
            let waiting_client = client.clone();
            let mut tasks = several(move || {
                let client = waiting_client.clone();
                async move { client.open_uni().await.map(drop) }
            })
            .await;
            if drops {
                tasks.remove(0).abort();
            }
            drop(opened);
            // The server has read all streams: credit for new ones is granted in one step.
            let mut received = Vec::new();
            for _ in 0..WAITERS {
                received.push(server.accept_uni().await.unwrap());
            }
            for mut stream in received {
                let _ = stream.read_to_end(10).await;
            }
            for result in all("open_uni", tasks).await {
                result.unwrap();
            }
        }
    });
}

/// All tasks that wait on an endpoint are notified when it is closed, and when no connection is
/// left.
#[test]
fn the_end_of_an_endpoint_wakes_everyone() {
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let endpoints: [Endpoint; 2] = [pair.server.clone(), pair.client.clone()];
        let mut waits = Vec::new();
        for endpoint in &endpoints {
            let idle = endpoint.clone();
            waits.push((
                "wait_idle",
                several(move || {
                    let endpoint = idle.clone();
                    async move { endpoint.wait_idle().await }
                })
                .await,
            ));
        }
        let accepting = pair.server.clone();
        waits.push((
            "accept",
            several(move || {
                let endpoint = accepting.clone();
                async move { assert!(endpoint.accept().await.is_none()) }
            })
            .await,
        ));
        endpoints.iter().for_each(|endpoint| endpoint.close(code(1), b"bye"));
        drop((client, server));
        for (what, tasks) in waits {
            all(what, tasks).await;
        }
    });
}
