//! A page that follows live connections.
//!
//! `origin` is the source of the logs, `follow` reads them on its own thread, and `state` keeps the
//! data that was read so far. This module sends the data to pages as server-sent events.

mod follow;
mod origin;
mod state;

pub(super) use origin::Origin;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use http::{Response, StatusCode};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::http1::{self, Body, Content};
use state::{Known, Told};

/// Interval at which updates are sent to a page.
const INTERVAL: Duration = Duration::from_millis(100);

/// Time without updates after which a comment is sent, so that no proxy closes the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Starts following `origin`, and serves the updates.
pub(super) fn news(origin: Origin) -> impl Content {
    let known = Arc::new(Known::default());
    let followed = Arc::clone(&known);
    // The thread ends with the program.
    std::thread::spawn(move || follow::follow(&origin, &followed));
    Live(known)
}

struct Live(Arc<Known>);

impl Content for Live {
    async fn get(&self, path: &str) -> Response<Body> {
        match path {
            "/live" => http1::events(events(Arc::clone(&self.0))),
            _ => http1::refusal(StatusCode::NOT_FOUND, "the only resource is /live\n"),
        }
    }
}

fn events(known: Arc<Known>) -> impl Stream<Item = Bytes> + Send + 'static {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    unfold((known, Told::default(), ticks), |(known, mut told, mut ticks)| async {
        let begin = Instant::now();
        let event = loop {
            ticks.tick().await;
            match known.news(&mut told) {
                // JSON has no line breaks, which would end the field.
                Some((name, data)) => break format!("event: {name}\ndata: {data}\n\n"),
                None if begin.elapsed() >= KEEP_ALIVE => break ":\n\n".to_owned(),
                None => {}
            }
        };
        Some((Bytes::from(event), (known, told, ticks)))
    })
}
