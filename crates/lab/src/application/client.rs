//! The client: downloads or uploads the data that a scenario requires, and records when it has
//! finished.

use core::time::Duration;
use std::collections::BTreeMap;

use clearway_http3::{Code, Config, Connection as Http3, Event, Role, SendError, Transport};
use clearway_units::{Random, Timestamp};
use http::Request;

use super::body::Body;
use super::order::{Cancel, Order};
use super::plan::Plan;
use super::{Application, Common, Progress};
use crate::setup::Traffic;
use crate::stack::Stack;

/// The client application.
#[derive(Debug)]
pub struct Client {
    common: Common,
    /// The requests of the current traffic phase, one plan for each kind of concurrent traffic.
    plans: Vec<Plan>,
    /// The traffic phases after the current one, in reverse order.
    later: Vec<Traffic>,
    open: BTreeMap<u64, Exchange>,
    /// The source of randomness that determines when requests are canceled.
    random: Random,
    /// The time at which the flow finishes, even if data is outstanding.
    ends_at: Option<Timestamp>,
}

/// An incomplete request.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    /// The index of the plan that made the request.
    plan: usize,
    /// Bytes of content that have arrived.
    read: u64,
    /// The number of content bytes in a complete response.
    expected: u64,
    /// The number of bytes after which the client rejects the rest of the response.
    stops_after: Option<u64>,
}

/// Returns when traffic with a fixed duration ends.
fn end(now: Timestamp, traffic: &Traffic) -> Option<Timestamp> {
    match *traffic {
        Traffic::Bulk { length } => Some(now + length),
        _ => None,
    }
}

impl Client {
    /// Creates a client that begins at `now` and is not connected yet.
    pub fn new(now: Timestamp, traffic: &Traffic, http3: Config, random: &mut Random) -> Self {
        let http3 = Http3::new(Role::Client, http3, random);
        let mut later: Vec<_> = traffic.parts().iter().rev().cloned().collect();
        let first = later.pop().unwrap_or(Traffic::Idle { length: Duration::ZERO });
        // A clone is forked so that later values from `random` do not depend on the traffic.
        let random = random.clone().fork();
        Self {
            common: Common::new(http3),
            plans: plans(now, &first),
            later,
            open: BTreeMap::new(),
            random,
            ends_at: end(now, &first),
        }
    }

    /// Begins the next traffic phase when the previous one is complete.
    fn go_on(&mut self, now: Timestamp) {
        while !self.later.is_empty() && self.is_part_done(now) {
            let Some(next) = self.later.pop() else { return };
            self.plans = plans(now, &next);
            self.ends_at = end(now, &next);
        }
    }

    fn is_part_done(&self, now: Timestamp) -> bool {
        self.common.progress.connected_at.is_some()
            && self.plans.iter().all(|plan| plan.is_over(now))
            && self.open.is_empty()
    }

    fn events(&mut self, now: Timestamp, streams: &mut dyn Transport) {
        while let Some(event) = self.common.http3.next_event() {
            let Some(event) = self.common.common_event(event) else { continue };
            match event {
                Event::Response { response, stream } if !response.status().is_success() => {
                    self.common.fail(format!("stream {stream}: status {}", response.status()));
                }
                Event::Data { stream } => {
                    self.on_data(now, streams, stream);
                }
                // An expected cancellation; `common_event` has reported all other resets as failures.
                Event::Reset { stream, .. } => {
                    self.open.remove(&stream);
                }
                Event::Finished { stream } => self.on_complete(stream),
                _ => {}
            }
        }
    }

    fn on_data(&mut self, now: Timestamp, streams: &mut dyn Transport, stream: u64) {
        let Some(exchange) = self.open.get_mut(&stream) else { return };
        let most = exchange.stops_after.unwrap_or(u64::MAX);
        self.common.read(now, streams, stream, &mut exchange.read, most);
        if exchange.read >= most {
            self.open.remove(&stream);
            self.common.http3.stop(streams, stream, Code::REQUEST_CANCELLED);
        }
    }

    fn on_complete(&mut self, stream: u64) {
        let Some(Exchange { read, expected, .. }) = self.open.remove(&stream) else { return };
        if read != expected {
            self.common
                .fail(format!("stream {stream}: {read} bytes received, {expected} expected"));
        }
    }

    /// Makes all requests that are due.
    fn request(&mut self, now: Timestamp, streams: &mut dyn Transport) {
        if !self.common.can_send() {
            return;
        }
        for index in 0..self.plans.len() {
            self.plans[index].is_blocked = false;
            while self.plans[index].left > 0 && self.plans[index].is_due(now, self.is_idle(index)) {
                match self.send_request(index, streams) {
                    Ok(()) => self.plans[index].on_begun(now),
                    Err(SendError::StreamsBlocked) => {
                        self.plans[index].is_blocked = true;
                        break;
                    }
                    Err(error) => return self.common.fail(format!("{error:?}")),
                }
            }
        }
    }

    /// Returns whether all requests made so far by the plan are complete.
    fn is_idle(&self, plan: usize) -> bool {
        self.open.values().all(|exchange| exchange.plan != plan)
    }

    fn is_done(&self, now: Timestamp) -> bool {
        match self.ends_at {
            Some(end) => end <= now,
            None => self.later.is_empty() && self.is_part_done(now),
        }
    }

    fn send_request(&mut self, plan: usize, streams: &mut dyn Transport) -> Result<(), SendError> {
        let inquiry = self.plans[plan].inquiry(&mut self.random);
        let uri = format!("https://lab.example{}", inquiry.order.path());
        let mut request = Request::new(());
        *request.method_mut() = inquiry.method;
        *request.uri_mut() =
            uri.parse().map_err(|_| SendError::Malformed { reason: "not a URI" })?;
        let is_whole = inquiry.upload.is_none();
        let stream = self.common.http3.send_request(streams, &request, is_whole)?;
        let (stops_after, resets_after) = match inquiry.order {
            Order::Cancelled { cancel: Cancel::ClientStops, after, .. } => (Some(after), None),
            Order::Cancelled { cancel: Cancel::ClientResets, after, .. } => (None, Some(after)),
            _ => (None, None),
        };
        let exchange = Exchange { plan, read: 0, expected: inquiry.expected, stops_after };
        self.open.insert(stream, exchange);
        self.common.arrange(stream, inquiry.order.cancel());
        if let Some(size) = inquiry.upload {
            self.common.bodies.insert(stream, Body::new(stream, size, None).cut(resets_after));
        }
        Ok(())
    }

    /// Sends as much as possible. A request that is canceled in the process no longer needs a
    /// response (RFC 9114 §4.1.1).
    fn pump(&mut self, now: Timestamp, streams: &mut dyn Transport) {
        for stream in self.common.pump(now, streams) {
            self.open.remove(&stream);
            self.common.http3.stop(streams, stream, Code::REQUEST_CANCELLED);
        }
    }
}

/// Returns the plans for a traffic phase, one for each concurrent kind of traffic.
fn plans(now: Timestamp, traffic: &Traffic) -> Vec<Plan> {
    traffic.kinds().iter().map(|kind| Plan::new(now, kind)).collect()
}

impl Application for Client {
    fn run(&mut self, now: Timestamp, stack: &mut dyn Stack) {
        self.common.feed(now, stack);
        stack.with_streams(now, &mut |streams| {
            self.events(now, streams);
            self.go_on(now);
            self.request(now, streams);
            self.pump(now, streams);
        });
        let is_over = self.common.progress.finished_at.is_some();
        if !is_over && self.common.progress.failure.is_none() && self.is_done(now) {
            self.common.progress.finished_at = Some(now);
            if self.ends_at.is_some() {
                // Data that is no longer needed must not disturb other flows.
                stack.with_streams(now, &mut |streams| streams.close(Code::NO_ERROR.get(), ""));
            }
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let is_over = self.common.progress.finished_at.is_some();
        let end = self.ends_at.filter(|_| !is_over);
        let is_connected = self.common.can_send();
        let plans = self.plans.iter().filter_map(Plan::deadline);
        let plans = plans.filter(|_| is_connected && !is_over);
        self.common.deadline().into_iter().chain(plans).chain(end).min()
    }

    fn progress(&self) -> &Progress {
        &self.common.progress
    }

    fn has_backlog(&self) -> bool {
        self.common.has_backlog()
    }
}
