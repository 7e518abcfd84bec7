//! A load of many HTTP/3 requests, with the number of responses per second and the latency of each.
//! The client runs as tasks on its shard's thread.

use std::io::{Write, stdin, stdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clearway::Endpoint;
use clearway::http3::Client;
use http::{Request, StatusCode};
use peer_common::{LoadOptions, Schedule, Tally};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::clients::{connect_at, shut_down};
use crate::http3::ALPN;
use crate::options::{BusyPollOptions, Mtu};
use crate::pattern::Sink;
use crate::{Outcome, tls, transfer};

#[derive(clap::Args)]
pub(crate) struct Load {
    #[command(flatten)]
    options: LoadOptions,
    #[command(flatten)]
    busy_poll: BusyPollOptions,
    /// Print a line when the connections are open, and start requests when a line arrives on
    /// standard input, so that several of these programs start at the same time.
    #[arg(long)]
    attached: bool,
}

pub(crate) fn run(load: &Load, mtu: Mtu) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(LocalSet::new().run_until(make(load, mtu)))
}

async fn make(load: &Load, mtu: Mtu) -> Outcome {
    let Load { options, busy_poll, attached } = load;
    let config = tls::client(&options.ca, ALPN, mtu)?;
    let endpoint = Endpoint::client(transfer::local_address(options.connect))?;
    busy_poll.apply(&endpoint);
    let clients = connect_at(&endpoint, config, options.connect, options.connections).await?;
    if *attached {
        println!("opened {}", clients.len());
        stdout().flush()?;
        stdin().read_line(&mut String::new())?;
    }
    let schedule = Schedule::new(options);
    let tally = Arc::new(Mutex::new(Tally::default()));
    let (sender, mut ended) = mpsc::unbounded_channel();
    // The receiver is gone only if another task has failed.
    let report = move |outcome: Outcome| {
        let _ = sender.send(outcome.map_err(|error| error.to_string()));
    };
    match options.pace() {
        Some(pace) => {
            let (clients, tally, size) = (clients.clone(), tally.clone(), options.size);
            let runtime = Handle::current();
            pace.start(move |number, due| {
                let _guard = runtime.enter();
                let client = clients[number % clients.len()].clone();
                let (asking, tally, report) = (client.clone(), tally.clone(), report.clone());
                client.spawn(async move { report(ask(&asking, size, due, &tally).await) });
                true
            });
        }
        None => {
            for worker in 0..schedule.workers() {
                let client = clients[worker % clients.len()].clone();
                let (asking, tally, report) = (client.clone(), tally.clone(), report.clone());
                let size = options.size;
                client.spawn(async move {
                    report(ask_again_and_again(&asking, size, schedule, &tally).await);
                });
            }
            drop(report);
        }
    }
    while let Some(outcome) = ended.recv().await {
        outcome?;
    }
    let elapsed = schedule.elapsed();
    shut_down(clients).await?;
    std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner)).print(elapsed);
    Ok(())
}

async fn ask_again_and_again(
    client: &Client,
    size: u64,
    schedule: Schedule,
    tally: &Mutex<Tally>,
) -> Outcome {
    while let Some(began) = schedule.next() {
        ask(client, size, began, tally).await?;
    }
    Ok(())
}

/// Makes one request. Its latency is measured from `began`.
pub(crate) async fn ask(
    client: &Client,
    size: u64,
    began: Instant,
    tally: &Mutex<Tally>,
) -> Outcome {
    let url = format!("https://localhost/zero/{size}");
    let response = client.send(Request::get(url).body(())?).await?;
    if response.status() != StatusCode::OK {
        return Err(format!("the server responded with status {}", response.status()).into());
    }
    let mut body = response.into_body();
    let mut sink = Sink::new();
    while let Some(chunk) = body.chunk().await {
        if !sink.accept(&chunk?) {
            return Err(format!("wrong bytes after {}", sink.received).into());
        }
    }
    if sink.received != size {
        return Err(format!("only {} of {size} bytes were received", sink.received).into());
    }
    tally.lock().unwrap_or_else(PoisonError::into_inner).add(began, sink.received);
    Ok(())
}
