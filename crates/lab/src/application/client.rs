//! Fetches or sends what a scenario says, and notes when it is done.

use core::time::Duration;
use std::collections::BTreeMap;

use clearway_http3::{Config, Connection as Http3, Event, Role, SendError, Transport};
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
    /// Requests that are not complete, with the content that came.
    open: BTreeMap<u64, u64>,
    /// What each complete answer must have brought.
    expected: u64,
}

/// The requests that are still to be made.
#[derive(Debug)]
struct Plan {
    method: Method,
    path: String,
    /// Bytes that a request carries.
    upload: Option<u64>,
    left: u64,
    every: Option<Duration>,
    /// When the next one may begin; set once connected.
    next_at: Option<Timestamp>,
}

impl Plan {
    fn new(traffic: &Traffic) -> (Self, u64) {
        let order = match *traffic {
            Traffic::Download { size } | Traffic::Requests { size, .. } => Order::Content(size),
            Traffic::Upload { .. } => Order::Content(0),
            Traffic::Paced { rate, chunk, size } => Order::Paced { size, rate, chunk },
        };
        let (left, every) = match *traffic {
            Traffic::Requests { count, every, .. } => (count, every),
            _ => (1, None),
        };
        let (method, upload, expected) = match *traffic {
            Traffic::Upload { size } => (Method::POST, Some(size), 0),
            Traffic::Requests { size, .. } => (Method::GET, None, size),
            _ => (Method::GET, None, traffic.bytes()),
        };
        (Self { method, path: order.path(), upload, left, every, next_at: None }, expected)
    }
}

impl Client {
    /// A client that has yet to connect.
    pub fn new(traffic: &Traffic, random: &mut Random) -> Self {
        let http3 = Http3::new(Role::Client, Config::default(), random);
        let (plan, expected) = Plan::new(traffic);
        Self { common: Common::new(http3), plan, open: BTreeMap::new(), expected }
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
        if read != self.expected {
            self.common.fail(format!("stream {stream}: {read} bytes, not {}", self.expected));
        }
    }

    /// Makes the requests that are due.
    fn request(&mut self, now: Timestamp, streams: &mut dyn Transport) {
        if self.common.progress.connected_at.is_none() {
            return;
        }
        while self.plan.left > 0 && self.is_due(now) {
            match self.send_request(streams) {
                Ok(()) => self.plan.left -= 1,
                Err(SendError::StreamsBlocked) => return,
                Err(error) => return self.common.fail(format!("{error:?}")),
            }
            let begun = self.plan.next_at.unwrap_or(now);
            self.plan.next_at = self.plan.every.map(|every| begun + every);
        }
    }

    fn is_due(&self, now: Timestamp) -> bool {
        match self.plan.every {
            None => self.open.is_empty(),
            Some(_) => self.plan.next_at.is_none_or(|at| at <= now),
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
            self.request(now, streams);
            self.common.pump(now, streams);
        });
        let is_done = self.plan.left == 0 && self.open.is_empty();
        if is_done && self.common.progress.failure.is_none() {
            self.common.progress.finished_at.get_or_insert(now);
        }
    }

    fn deadline(&self) -> Option<Timestamp> {
        let next = self.plan.next_at.filter(|_| self.plan.left > 0 && self.plan.every.is_some());
        self.common.deadline().into_iter().chain(next).min()
    }

    fn progress(&self) -> &Progress {
        &self.common.progress
    }

    fn has_backlog(&self) -> bool {
        self.common.has_backlog()
    }
}
