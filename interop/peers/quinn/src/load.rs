//! Many requests over HTTP/3: how many are answered in a second, and how long each takes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use http::{Request, StatusCode};
use peer_common::{LoadOptions, Schedule, Sink, Tally};
use quinn::{ClientConfig, Endpoint};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet, spawn_local};

use crate::endpoint::{self, NO_ERROR, Settings};
use crate::tls;

const ALPN: &[u8] = b"h3";
/// How many connections are opened at the same time.
const OPENING: usize = 32;

type Requests = SendRequest<OpenStreams, Bytes>;

/// Makes requests for as long as the options say, and prints the result. All connections share one socket.
pub async fn run(options: &LoadOptions, mtu: Option<u16>) -> Result<()> {
    let settings = Settings { mtu, qlog: None };
    let mut config = ClientConfig::new(tls::client(Some(&options.ca), ALPN)?);
    config.transport_config(settings.transport("client")?);
    let endpoint = endpoint::client(&settings, options.connect)?;
    LocalSet::new().run_until(make(options, &endpoint, config)).await?;
    endpoint.close(NO_ERROR, b"");
    endpoint.wait_idle().await;
    Ok(())
}

async fn make(options: &LoadOptions, endpoint: &Endpoint, config: ClientConfig) -> Result<()> {
    let mut clients: Vec<Requests> = Vec::new();
    while clients.len() < options.connections {
        let left = options.connections - clients.len();
        let mut opening = Vec::new();
        for _ in 0..left.min(OPENING) {
            let connecting = endpoint.connect_with(config.clone(), options.connect, "localhost")?;
            opening.push(spawn_local(async move {
                let connection = h3_quinn::Connection::new(connecting.await?);
                let (mut http, requests) = h3::client::new(connection).await?;
                spawn_local(async move { poll_fn(|context| http.poll_close(context)).await });
                anyhow::Ok(requests)
            }));
        }
        for client in opening {
            clients.push(client.await??);
        }
    }
    let schedule = Schedule::new(options);
    let tally = Rc::new(RefCell::new(Tally::default()));
    let mut running = JoinSet::new();
    match options.pace() {
        Some(pace) => {
            let (sender, mut dues) = mpsc::unbounded_channel();
            pace.start(move |number, due| sender.send((number, due)).is_ok());
            while let Some((number, due)) = dues.recv().await {
                let mut requests = clients[number % clients.len()].clone();
                let (size, tally) = (options.size, tally.clone());
                running.spawn_local(async move { ask(&mut requests, size, due, &tally).await });
            }
        }
        None => {
            for worker in 0..schedule.workers() {
                let requests = clients[worker % clients.len()].clone();
                let work = ask_again_and_again(requests, options.size, schedule, tally.clone());
                running.spawn_local(work);
            }
        }
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    tally.take().print(schedule.elapsed());
    Ok(())
}

async fn ask_again_and_again(
    mut requests: Requests,
    size: u64,
    schedule: Schedule,
    tally: Rc<RefCell<Tally>>,
) -> Result<()> {
    while let Some(began) = schedule.next() {
        ask(&mut requests, size, began, &tally).await?;
    }
    Ok(())
}

/// Makes one request, whose latency counts from `began`.
async fn ask(
    requests: &mut Requests,
    size: u64,
    began: Instant,
    tally: &RefCell<Tally>,
) -> Result<()> {
    let url = format!("https://localhost/zero/{size}");
    let mut stream = requests.send_request(Request::get(&url).body(())?).await?;
    stream.finish().await?;
    let status = stream.recv_response().await?.status();
    ensure!(status == StatusCode::OK, "the server responded with status {status}");
    let mut sink = Sink::of_generated(size);
    while let Some(mut data) = stream.recv_data().await? {
        while data.has_remaining() {
            let length = data.chunk().len();
            sink.take(data.chunk())?;
            data.advance(length);
        }
    }
    tally.borrow_mut().add(began, sink.finish()?);
    Ok(())
}
