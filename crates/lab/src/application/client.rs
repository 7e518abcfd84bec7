//! Fetches or sends what a scenario says, and notes when it is done.

use core::time::Duration;
use std::collections::BTreeMap;

use clearway_http3::{Code, Config, Connection as Http3, Event, Role, SendError, Transport};
use clearway_units::{Random, Timestamp};
use http::{Method, Request};

use super::body::Body;
use super::server::Order;
use super::{Application, Common, Progress};
use crate::setup::Traffic;
use crate::stack::Stack;

/// The client's end.
#[derive(Debug)]
pub struct Client {
    common: Common,
    plan: Plan,
    /// What comes after that, the last first.
    later: Vec<Traffic>,
    /// Requests that are not complete, with the content that came.
    open: BTreeMap<u64, u64>,
    /// When the flow has finished, whatever is still to come.
    ends_at: Option<Timestamp>,
}

/// The requests that are still to be made.
#[derive(Debug)]
struct Plan {
    method: Method,
    path: String,
    /// Bytes that a request carries.
    upload: Option<u64>,
    left: u64,
    spacing: Spacing,
    /// When the next one may begin, once one has begun.
    next_at: Option<Timestamp>,
    /// It is not over before.
    lasts_until: Option<Timestamp>,
    /// What each complete answer must have brought.
    expected: u64,
    /// The peer allows no more streams at present; an event tells when it does.
    is_blocked: bool,
}

/// How requests follow each other.
#[derive(Clone, Copy, Debug)]
enum Spacing {
    /// Each begins when the one before it is complete.
    Serial,
    /// Each begins so long after the beginning of the one before it.
    Every(Duration),
}

/// Longer than anything that can be sent in a run.
const ENDLESS: u64 = 1 << 60;

impl Plan {
    /// What a part of the traffic, which begins at `now` or once there is a connection, asks for.
    fn new(now: Timestamp, traffic: &Traffic) -> Self {
        let order = match *traffic {
            Traffic::Download { size }
            | Traffic::Parallel { size, .. }
            | Traffic::Requests { size, .. } => Order::Content(size),
            Traffic::Upload { .. } => Order::Content(0),
            Traffic::Paced { rate, chunk, size } => Order::Paced { size, rate, chunk },
            Traffic::Bulk { .. } => Order::Content(ENDLESS),
            Traffic::Idle { .. } | Traffic::Sequence { .. } => Order::Content(0),
        };
        let (left, spacing) = match *traffic {
            Traffic::Parallel { count, .. } => (count, Spacing::Every(Duration::ZERO)),
            Traffic::Requests { count, every: Some(every), .. } => (count, Spacing::Every(every)),
            Traffic::Requests { count, every: None, .. } => (count, Spacing::Serial),
            Traffic::Idle { .. } | Traffic::Sequence { .. } => (0, Spacing::Serial),
            _ => (1, Spacing::Serial),
        };
        let (method, upload) = match *traffic {
            Traffic::Upload { size } => (Method::POST, Some(size)),
            _ => (Method::GET, None),
        };
        let path = order.path();
        let lasts_until = match *traffic {
            Traffic::Idle { length } => Some(now + length),
            _ => None,
        };
        let (next_at, is_blocked, expected) = (None, false, expected(traffic));
        Self { method, path, upload, left, spacing, next_at, lasts_until, expected, is_blocked }
    }

    fn is_due(&self, now: Timestamp, is_idle: bool) -> bool {
        match self.spacing {
            Spacing::Serial => is_idle,
            Spacing::Every(_) => self.next_at.is_none_or(|at| at <= now),
        }
    }

    fn on_begun(&mut self, now: Timestamp) {
        self.left -= 1;
        if let Spacing::Every(every) = self.spacing {
            self.next_at = Some(self.next_at.unwrap_or(now) + every);
        }
    }

    /// Whether all requests were made, and its time is over.
    fn is_over(&self, now: Timestamp) -> bool {
        self.left == 0 && self.lasts_until.is_none_or(|until| until <= now)
    }

    fn deadline(&self) -> Option<Timestamp> {
        let next = self.next_at.filter(|_| self.left > 0 && !self.is_blocked);
        next.into_iter().chain(self.lasts_until).min()
    }
}

/// Bytes that each complete answer has.
fn expected(traffic: &Traffic) -> u64 {
    match *traffic {
        Traffic::Upload { .. } => 0,
        Traffic::Parallel { size, .. } | Traffic::Requests { size, .. } => size,
        _ => traffic.bytes().unwrap_or(ENDLESS),
    }
}

/// When traffic ends whose time decides.
fn end(now: Timestamp, traffic: &Traffic) -> Option<Timestamp> {
    match *traffic {
        Traffic::Bulk { length } => Some(now + length),
        _ => None,
    }
}

impl Client {
    /// A client that begins at `now` and has yet to connect.
    pub fn new(now: Timestamp, traffic: &Traffic, random: &mut Random) -> Self {
        let http3 = Http3::new(Role::Client, Config::default(), random);
        let mut later: Vec<_> = traffic.parts().iter().rev().cloned().collect();
        let first = later.pop().unwrap_or(Traffic::Idle { length: Duration::ZERO });
        let (common, plan, open) = (Common::new(http3), Plan::new(now, &first), BTreeMap::new());
        Self { common, plan, later, open, ends_at: end(now, &first) }
    }

    /// Begins with the next part when the one before it is complete.
    fn go_on(&mut self, now: Timestamp) {
        while !self.later.is_empty() && self.is_part_done(now) {
            let Some(next) = self.later.pop() else { return };
            self.plan = Plan::new(now, &next);
            self.ends_at = end(now, &next);
        }
    }

    fn is_part_done(&self, now: Timestamp) -> bool {
        self.common.progress.connected_at.is_some()
            && self.plan.is_over(now)
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
                    if let Some(mut read) = self.open.get(&stream).copied() {
                        self.common.read(now, streams, stream, &mut read);
                        self.open.insert(stream, read);
                    }
                }
                Event::Finished { stream } => self.on_complete(stream),
                _ => {}
            }
        }
    }

    fn on_complete(&mut self, stream: u64) {
        let Some(read) = self.open.remove(&stream) else { return };
        let expected = self.plan.expected;
        if read != expected {
            self.common.fail(format!("stream {stream}: {read} bytes, not {expected}"));
        }
    }

    /// Makes the requests that are due.
    fn request(&mut self, now: Timestamp, streams: &mut dyn Transport) {
        if self.common.progress.connected_at.is_none() {
            return;
        }
        self.plan.is_blocked = false;
        while self.plan.left > 0 && self.plan.is_due(now, self.open.is_empty()) {
            match self.send_request(streams) {
                Ok(()) => self.plan.on_begun(now),
                Err(SendError::StreamsBlocked) => {
                    self.plan.is_blocked = true;
                    return;
                }
                Err(error) => return self.common.fail(format!("{error:?}")),
            }
        }
    }

    fn is_done(&self, now: Timestamp) -> bool {
        match self.ends_at {
            Some(end) => end <= now,
            None => self.later.is_empty() && self.is_part_done(now),
        }
    }

    fn send_request(&mut self, streams: &mut dyn Transport) -> Result<(), SendError> {
        let uri = format!("https://lab.example{}", self.plan.path);
        let mut request = Request::new(());
        *request.method_mut() = self.plan.method.clone();
        *request.uri_mut() =
            uri.parse().map_err(|_| SendError::Malformed { reason: "not a URI" })?;
        let is_whole = self.plan.upload.is_none();
        let stream = self.common.http3.send_request(streams, &request, is_whole)?;
        self.open.insert(stream, 0);
        if let Some(size) = self.plan.upload {
            self.common.bodies.insert(stream, Body::new(stream, size, None));
        }
        Ok(())
    }
}

impl Application for Client {
    fn run(&mut self, now: Timestamp, stack: &mut dyn Stack) {
        self.common.feed(now, stack);
        stack.with_streams(now, &mut |streams| {
            self.events(now, streams);
            self.go_on(now);
            self.request(now, streams);
            self.common.pump(now, streams);
        });
        let is_over = self.common.progress.finished_at.is_some();
        if !is_over && self.common.progress.failure.is_none() && self.is_done(now) {
            self.common.progress.finished_at = Some(now);
            if self.ends_at.is_some() {
                // Others are not to be disturbed by what nobody waits for any more.
                stack.with_streams(now, &mut |streams| streams.close(Code::NO_ERROR.get(), ""));
            }
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let is_over = self.common.progress.finished_at.is_some();
        let end = self.ends_at.filter(|_| !is_over);
        let is_connected = self.common.progress.connected_at.is_some();
        let plan = self.plan.deadline().filter(|_| is_connected && !is_over);
        self.common.deadline().into_iter().chain(plan).chain(end).min()
    }

    fn progress(&self) -> &Progress {
        &self.common.progress
    }

    fn has_backlog(&self) -> bool {
        self.common.has_backlog()
    }
}
