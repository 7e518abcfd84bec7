//! Counters of HTTP/3 requests.

use std::sync::Arc;
use std::time::Instant;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The label of a class of status codes.
type Class = [(&'static str, &'static str); 1];

/// The classes of a response's status code: their first digits are 2 to 5.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// The histogram bounds of durations, in seconds.
const DURATIONS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The counters of requests. Clones share them.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Requests(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    received: Counter,
    in_progress: Gauge,
    responses: Family<Class, Counter>,
    /// The counters in `responses`, kept here so that counting needs no lookup.
    by_class: [Counter; CLASSES.len()],
    durations: Histogram,
}

impl Requests {
    pub(in crate::serve) fn new() -> Self {
        let responses = Family::<Class, Counter>::default();
        let by_class = CLASSES.map(|class| responses.get_or_create_owned(&[("class", class)]));
        Self(Arc::new(Counts {
            received: Counter::default(),
            in_progress: Gauge::default(),
            responses,
            by_class,
            durations: Histogram::new(DURATIONS),
        }))
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let Counts { received, in_progress, responses, durations, .. } = &*self.0;
        registry.register("requests", "Requests received", received.clone());
        registry.register(
            "requests_in_progress",
            "Requests whose response is not complete",
            in_progress.clone(),
        );
        registry.register("responses", "Responses started, by status class", responses.clone());
        registry.register_with_unit(
            "request_duration",
            "Time from receiving a request's header until its response was sent or aborted",
            Unit::Seconds,
            durations.clone(),
        );
    }

    /// Counts a received request.
    pub(in crate::serve) fn begin(&self) -> Request {
        self.0.received.inc();
        self.0.in_progress.inc();
        Request { counts: self.0.clone(), begun: Instant::now() }
    }
}

/// A request in progress, until it is dropped.
pub(in crate::serve) struct Request {
    counts: Arc<Counts>,
    pub(in crate::serve) begun: Instant,
}

impl Request {
    /// Records that the response to the request begins, with this status code.
    pub(in crate::serve) fn answered(&self, status: u16) {
        let class = usize::from(status / 100).checked_sub(2);
        if let Some(counter) = class.and_then(|class| self.counts.by_class.get(class)) {
            counter.inc();
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.counts.in_progress.dec();
        self.counts.durations.observe(self.begun.elapsed().as_secs_f64());
    }
}
