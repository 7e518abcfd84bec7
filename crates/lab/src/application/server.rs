//! Gives what it is asked for.

use std::collections::BTreeMap;

use clearway_http3::{Config, Connection as Http3, Event, Role, SendError, Transport};
use clearway_units::{Random, Rate, Timestamp};
use http::{Method, Request, Response};

use super::body::{Body, Pace};
use super::{Application, Common, Progress};
use crate::stack::Stack;

/// What a client can ask for, as a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Order {
    /// So many bytes.
    Content(u64),
    /// So many bytes that come into being at a rate, a chunk at a time.
    Paced { size: u64, rate: Rate, chunk: u64 },
}

impl Order {
    pub(super) fn path(&self) -> String {
        match self {
            Self::Content(size) => format!("/{size}"),
            Self::Paced { size, rate, chunk } => {
                format!("/{size}/{}/{chunk}", rate.bytes_per_second())
            }
        }
    }

    fn parse(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/').map(|part| part.parse().ok());
        let size: u64 = parts.next()??;
        let Some(rate) = parts.next() else { return Some(Self::Content(size)) };
        Some(Self::Paced { size, rate: Rate::from_bytes_per_second(rate?), chunk: parts.next()?? })
    }
}

/// The server's end.
#[derive(Debug)]
pub struct Server {
    common: Common,
    /// Requests whose content is coming, with what came of it.
    uploads: BTreeMap<u64, u64>,
}

impl Server {
    /// A server that has no client yet.
    pub fn new(random: &mut Random) -> Self {
        let http3 = Http3::new(Role::Server, Config::default(), random);
        Self { common: Common::new(http3), uploads: BTreeMap::new() }
    }

    fn events(&mut self, now: Timestamp, streams: &mut dyn Transport) {
        while let Some(event) = self.common.http3.next_event() {
            let Some(event) = self.common.common_event(event) else { continue };
            let answered = match event {
                Event::Request { stream, request } if request.method() == Method::POST => {
                    self.uploads.insert(stream, 0);
                    Ok(())
                }
                Event::Request { stream, request } => self.answer(now, streams, stream, &request),
                Event::Data { stream } => {
                    if let Some(mut read) = self.uploads.get(&stream).copied() {
                        self.common.read(now, streams, stream, &mut read);
                        self.uploads.insert(stream, read);
                    }
                    Ok(())
                }
                Event::Finished { stream } if self.uploads.remove(&stream).is_some() => {
                    let http3 = &mut self.common.http3;
                    http3.send_response(streams, stream, &Response::new(()), true)
                }
                _ => Ok(()),
            };
            if let Err(error) = answered {
                self.common.fail(format!("{error:?}"));
            }
        }
    }

    fn answer(
        &mut self,
        now: Timestamp,
        streams: &mut dyn Transport,
        stream: u64,
        request: &Request<()>,
    ) -> Result<(), SendError> {
        let http3 = &mut self.common.http3;
        let Some(order) = Order::parse(request.uri().path()) else {
            let mut response = Response::new(());
            *response.status_mut() = http::StatusCode::NOT_FOUND;
            return http3.send_response(streams, stream, &response, true);
        };
        http3.send_response(streams, stream, &Response::new(()), false)?;
        let (size, pace) = match order {
            Order::Content(size) => (size, None),
            Order::Paced { size, rate, chunk } => (size, Some(Pace { since: now, rate, chunk })),
        };
        self.common.bodies.insert(stream, Body::new(stream, size, pace));
        Ok(())
    }
}

impl Application for Server {
    fn run(&mut self, now: Timestamp, stack: &mut dyn Stack) {
        self.common.feed(now, stack);
        stack.with_streams(now, &mut |streams| {
            self.events(now, streams);
            self.common.pump(now, streams);
        });
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.common.deadline()
    }

    fn progress(&self) -> &Progress {
        &self.common.progress
    }

    fn has_backlog(&self) -> bool {
        self.common.has_backlog()
    }
}
