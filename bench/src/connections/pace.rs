//! When the connections make their requests: they take turns, so that the load is even, each once in a period.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Held;
use super::client::Client;

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

/// The requests that are due within this time are made together. Every tick wakes this thread and the client's: with ticks of 5 ms
/// the generator takes a tenth more processor time for a request.
const TICK: Duration = Duration::from_millis(20);
/// How many times rarer requests are while connections are opened, which takes the rest of the generator's core.
const RARER: u32 = 4;

/// Has each connection that is open make a request when it is due, until the steady time is over. What a request takes
/// counts from when it was due, however late this thread or the client is.
pub(super) fn pace(held: &Arc<Held>) {
    let (mut due, count) = (Instant::now(), held.clients.len());
    let in_a_tick = count as f64 * TICK.div_duration_f64(held.period);
    let (mut next, mut owed) = (0, 0.0);
    loop {
        due += TICK;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let steady = held.steady.get();
        if steady.is_some_and(|steady| due >= steady.end) {
            return;
        }
        let is_counted = steady.is_some_and(|steady| due >= steady.begin);
        owed += if steady.is_some() { in_a_tick } else { in_a_tick / f64::from(RARER) };
        while owed >= 1.0 {
            owed -= 1.0;
            if let Some(client) = held.clients[next].get() {
                request(client, held, due, is_counted);
            }
            next = (next + 1) % count;
        }
    }
}

/// Has a connection make a request that was due at this time.
fn request(client: &Client, held: &Arc<Held>, due: Instant, is_counted: bool) {
    if is_counted {
        held.record.asked.fetch_add(1, Ordering::Relaxed);
    }
    let record = held.clone();
    let ended = move |outcome: Result<(), String>| {
        record.record.add(is_counted, outcome.map(|()| due.elapsed()));
    };
    client.ask(&held.wanted, Box::new(ended));
}
