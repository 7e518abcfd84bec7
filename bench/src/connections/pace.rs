//! The schedule of requests. The connections take turns, each making one request per period, so
//! that the load is even.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Held;
use super::client::Client;

/// The time interval in which requests are counted.
#[derive(Clone, Copy)]
pub(super) struct Steady {
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

impl Steady {
    /// Returns an interval that starts now.
    pub(super) fn new(length: Duration) -> Self {
        let begin = Instant::now();
        Self { begin, end: begin + length }
    }
}

/// Length of a tick. Requests that are due within the same tick are made together. Every tick wakes
/// this thread and the client's: with ticks of 5 ms, the generator uses a tenth more CPU time per
/// request.
const TICK: Duration = Duration::from_millis(20);
/// Factor by which the request rate is reduced while connections are opened, because opening them
/// uses the rest of the generator's core.
const RARER: u32 = 4;

/// Makes a request on each open connection when it is due, until the steady phase is over. Latency
/// is measured from the due time, even if this thread or the client is late.
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

/// Makes a request with the due time `due`.
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
