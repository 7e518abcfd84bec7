//! When the connections make their requests: one after the other, so that the load is even, and each once in a period.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clearway::http3::Client;
use http::{Request, StatusCode};

use super::Held;
use crate::pattern::Sink;

/// The time in which requests are counted.
#[derive(Clone, Copy)]
pub(super) struct Steady {
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

impl Steady {
    /// It begins now.
    pub(super) fn new(length: Duration) -> Self {
        let begin = Instant::now();
        Self { begin, end: begin + length }
    }
}

/// Has each connection that is open make a request when it is due, until the steady time is over. What a request takes
/// counts from when it was due, however late this thread or the client is.
pub(super) fn pace(held: &Arc<Held>) {
    let (start, count) = (Instant::now(), held.clients.len());
    for turn in 0_u64.. {
        let due = start + held.period.mul_f64(turn as f64 / count as f64);
        let wait = due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        let steady = held.steady.get();
        if steady.is_some_and(|steady| due >= steady.end) {
            return;
        }
        let is_counted = steady.is_some_and(|steady| due >= steady.begin);
        let index = (turn % count as u64) as usize;
        let Some(client) = held.clients[index].get() else { continue };
        if is_counted {
            held.record.asked.fetch_add(1, Ordering::Relaxed);
        }
        let (asking, held) = (client.clone(), held.clone());
        client.spawn(async move {
            let outcome = ask(&asking, &held).await.map(|()| due.elapsed());
            held.record.add(is_counted, outcome);
        });
    }
}

/// Makes one request, and checks the response.
pub(super) async fn ask(client: &Client, held: &Held) -> Result<(), String> {
    let request = Request::get(held.url.clone()).body(()).map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let (mut body, mut sink) = (response.into_body(), Sink::new());
    while let Some(chunk) = body.chunk().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        if !sink.accept(&chunk) {
            return Err(format!("wrong bytes after {}", sink.received));
        }
    }
    if status != StatusCode::OK || sink.received != held.size {
        return Err(format!("status {status}, {} of {} bytes", sink.received, held.size));
    }
    Ok(())
}
