//! The server: answers every request with the content that it specifies.

use std::collections::BTreeMap;

use clearway_http3::{Code, Config, Connection as Http3, Event, Role, SendError, Transport};
use clearway_units::{Random, Timestamp};
use http::{Method, Request, Response};

use super::body::{Body, Pace};
use super::order::{Cancel, Order};
use super::{Application, Common, Progress};
use crate::stack::Stack;

/// A request whose content is still arriving.
#[derive(Clone, Copy, Debug)]
struct Upload {
    /// Bytes of content that have arrived.
    read: u64,
    /// The number of bytes after which the server rejects the rest of the request.
    stops_after: Option<u64>,
}

/// The server application.
#[derive(Debug)]
pub struct Server {
    common: Common,
    uploads: BTreeMap<u64, Upload>,
}

impl Server {
    /// Creates a server that has no client yet.
    pub fn new(http3: Config, random: &mut Random) -> Self {
        let http3 = Http3::new(Role::Server, http3, random);
        Self { common: Common::new(http3), uploads: BTreeMap::new() }
    }

    fn events(&mut self, now: Timestamp, streams: &mut dyn Transport) {
        while let Some(event) = self.common.http3.next_event() {
            let Some(event) = self.common.common_event(event) else { continue };
            let answered = match event {
                Event::Request { stream, request } => {
                    self.on_request(now, streams, stream, &request)
                }
                Event::Data { stream } => self.on_data(now, streams, stream),
                // An expected cancellation; `common_event` has reported all other resets as failures.
                Event::Reset { stream, .. } => {
                    self.uploads.remove(&stream);
                    self.common.http3.reset(streams, stream, Code::REQUEST_CANCELLED);
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

    fn on_request(
        &mut self,
        now: Timestamp,
        streams: &mut dyn Transport,
        stream: u64,
        request: &Request<()>,
    ) -> Result<(), SendError> {
        let order = Order::parse(request.uri().path());
        self.common.arrange(stream, order.and_then(|order| order.cancel()));
        let http3 = &mut self.common.http3;
        match order {
            _ if request.method() == Method::POST => {
                let stops_after = match order {
                    Some(Order::Cancelled { cancel: Cancel::ServerStops, after, .. }) => {
                        Some(after)
                    }
                    _ => None,
                };
                self.uploads.insert(stream, Upload { read: 0, stops_after });
                Ok(())
            }
            Some(order) => {
                http3.send_response(streams, stream, &Response::new(()), false)?;
                self.common.bodies.insert(stream, body(now, stream, order));
                Ok(())
            }
            None => {
                let mut response = Response::new(());
                *response.status_mut() = http::StatusCode::NOT_FOUND;
                http3.send_response(streams, stream, &response, true)
            }
        }
    }

    fn on_data(
        &mut self,
        now: Timestamp,
        streams: &mut dyn Transport,
        stream: u64,
    ) -> Result<(), SendError> {
        let Some(upload) = self.uploads.get_mut(&stream) else { return Ok(()) };
        let most = upload.stops_after.unwrap_or(u64::MAX);
        self.common.read(now, streams, stream, &mut upload.read, most);
        if upload.read < most {
            return Ok(());
        }
        self.uploads.remove(&stream);
        let http3 = &mut self.common.http3;
        http3.send_response(streams, stream, &Response::new(()), true)?;
        http3.stop(streams, stream, Code::NO_ERROR);
        Ok(())
    }
}

/// Returns the content of the response to `order`, which arrived at `now`.
fn body(now: Timestamp, stream: u64, order: Order) -> Body {
    match order {
        Order::Content(size) => Body::new(stream, size, None),
        Order::Paced { size, rate, chunk } => {
            Body::new(stream, size, Some(Pace { since: now, rate, chunk }))
        }
        Order::Cancelled { cancel, size, after } => {
            let after = (cancel == Cancel::ServerResets).then_some(after);
            Body::new(stream, size, None).cut(after)
        }
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
