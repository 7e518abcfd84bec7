//! A load of many HTTP/3 requests, with the number of responses per second and the latency of each.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::{Buf, Bytes};
use h3::quic::OpenStreams;
use http::{Request, StatusCode};
use peer_common::{LoadOptions, Schedule, Sink, Tally};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Client;

/// Makes requests for the configured time, and prints the result.
pub async fn load<O>(options: &LoadOptions, clients: &[Client<O>]) -> Result<()>
where
    O: OpenStreams<Bytes> + Clone + 'static,
{
    let schedule = Schedule::new(options);
    let tally = Rc::new(RefCell::new(Tally::default()));
    let mut running = JoinSet::new();
    match options.pace() {
        Some(pace) => {
            let (sender, mut dues) = mpsc::unbounded_channel();
            pace.start(move |number, due| sender.send((number, due)).is_ok());
            while let Some((number, due)) = dues.recv().await {
                let mut client = clients[number % clients.len()].clone();
                let (size, tally) = (options.size, tally.clone());
                running.spawn_local(async move { ask(&mut client, size, due, &tally).await });
            }
        }
        None => {
            for worker in 0..schedule.workers() {
                let client = clients[worker % clients.len()].clone();
                let work = ask_again_and_again(client, options.size, schedule, tally.clone());
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

async fn ask_again_and_again<O: OpenStreams<Bytes>>(
    mut client: Client<O>,
    size: u64,
    schedule: Schedule,
    tally: Rc<RefCell<Tally>>,
) -> Result<()> {
    while let Some(began) = schedule.next() {
        ask(&mut client, size, began, &tally).await?;
    }
    Ok(())
}

/// Makes one request. Its latency is measured from `began`.
async fn ask<O: OpenStreams<Bytes>>(
    client: &mut Client<O>,
    size: u64,
    began: Instant,
    tally: &RefCell<Tally>,
) -> Result<()> {
    let url = format!("https://localhost/zero/{size}");
    let mut stream = client.0.send_request(Request::get(&url).body(())?).await?;
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
