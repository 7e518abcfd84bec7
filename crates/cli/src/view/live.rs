//! A page that follows connections in progress.
//!
//! `origin` is the source of the logs, `follow` reads them on a thread of its own, and `state` keeps what was read so
//! far. This module sends it to pages as server-sent events.

mod follow;
mod origin;
mod state;

pub(super) use origin::Origin;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::time::MissedTickBehavior;

use state::{Known, Told};

/// How often news is sent to a page.
const INTERVAL: Duration = Duration::from_millis(100);

/// Follows `origin` from now on, and serves what happens there.
pub(super) fn router(origin: Origin) -> Router {
    let known = Arc::new(Known::default());
    let followed = Arc::clone(&known);
    // The thread ends with the program.
    std::thread::spawn(move || follow::follow(&origin, &followed));
    Router::new().route("/live", get(live)).with_state(known)
}

async fn live(
    State(known): State<Arc<Known>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stream =
        unfold((known, Told::default(), interval), |(known, mut told, mut interval)| async {
            loop {
                interval.tick().await;
                if let Some((name, data)) = known.news(&mut told) {
                    let event = Event::default().event(name).data(data.to_string());
                    return Some((Ok(event), (known, told, interval)));
                }
            }
        });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
