//! A fixed number of requests over one HTTP/3 connection, in rounds: the next requests are made
//! when all requests of the previous round have been answered. So the requests and responses of a
//! round share datagrams in the same way, regardless of the speed of either endpoint, and their
//! instructions can be counted (`cargo xtask cost`). The client runs as tasks on its shard's
//! thread.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use clap::Args;
use clearway::http3::Client;
use peer_common::Tally;
use tokio::sync::{Barrier, mpsc};
use tokio::task::LocalSet;

use crate::http3::ALPN;
use crate::options::Mtu;
use crate::{Outcome, clients, load, tls};

#[derive(Args)]
pub(crate) struct RoundsOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The address of the server, whose certificate must be for `localhost`.
    #[arg(long)]
    connect: SocketAddr,
    /// Number of rounds.
    #[arg(long)]
    rounds: usize,
    /// Number of requests in a round.
    #[arg(long, default_value_t = 16)]
    streams: usize,
    /// Bytes in each response.
    #[arg(long, default_value_t = 1024)]
    size: u64,
}

pub(crate) fn run(options: &RoundsOptions, mtu: Mtu) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(LocalSet::new().run_until(make(options, mtu)))
}

async fn make(options: &RoundsOptions, mtu: Mtu) -> Outcome {
    let config = tls::client(&options.ca, ALPN, mtu)?;
    let clients = clients::connect(config, options.connect, 1).await?;
    let tally = Arc::new(Mutex::new(Tally::default()));
    let round = Arc::new(Barrier::new(options.streams));
    let (sender, mut ended) = mpsc::unbounded_channel();
    let began = Instant::now();
    for client in &clients {
        for _ in 0..options.streams {
            let (asking, round, tally) = (client.clone(), round.clone(), tally.clone());
            let (sender, rounds, size) = (sender.clone(), options.rounds, options.size);
            client.spawn(async move {
                let outcome = take_part(&asking, rounds, size, &round, &tally).await;
                // The receiver is gone only if another task has failed.
                let _ = sender.send(outcome.map_err(|error| error.to_string()));
            });
        }
    }
    drop(sender);
    while let Some(outcome) = ended.recv().await {
        outcome?;
    }
    let elapsed = began.elapsed();
    clients::shut_down(clients).await?;
    let tally = std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner));
    // A task might not run if its connection has ended.
    if tally.count() < options.rounds * options.streams {
        return Err(format!("the connection was lost after {} requests", tally.count()).into());
    }
    tally.print(elapsed);
    Ok(())
}

/// Makes one request in each round.
async fn take_part(
    client: &Client,
    rounds: usize,
    size: u64,
    round: &Barrier,
    tally: &Mutex<Tally>,
) -> Outcome {
    for _ in 0..rounds {
        round.wait().await;
        load::ask(client, size, Instant::now(), tally).await?;
    }
    Ok(())
}
