//! The requests that make up one kind of traffic.

use core::time::Duration;

use clearway_units::{Random, Timestamp};
use http::Method;

use super::order::{Cancel, Order};
use crate::setup::Traffic;

/// The remaining requests of one kind of traffic.
#[derive(Debug)]
pub(super) struct Plan {
    kind: Kind,
    pub(super) left: u64,
    spacing: Spacing,
    /// The earliest time of the next request, once a request has been made.
    next_at: Option<Timestamp>,
    /// The earliest time at which the plan may end.
    lasts_until: Option<Timestamp>,
    /// Whether the peer's stream limit currently prevents more requests; an event reports when it
    /// allows more.
    pub(super) is_blocked: bool,
}

/// The kind of the requests.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Get(Order),
    /// A request that uploads this many bytes of content.
    Post(u64),
    /// Messages of this many bytes that are canceled midway, cycling through the kinds of
    /// cancellation.
    Cancelled {
        size: u64,
    },
}

/// A request to be made.
#[derive(Clone, Debug)]
pub(super) struct Inquiry {
    pub(super) method: Method,
    pub(super) order: Order,
    /// The number of content bytes in the request.
    pub(super) upload: Option<u64>,
    /// The number of content bytes in a complete response.
    pub(super) expected: u64,
}

/// The spacing of consecutive requests.
#[derive(Clone, Copy, Debug)]
enum Spacing {
    /// Each request begins when the previous one is complete.
    Serial,
    /// Each request begins this long after the start of the previous one.
    Every(Duration),
}

/// A size larger than anything that can be sent in a run.
const ENDLESS: u64 = 1 << 60;

impl Plan {
    /// Creates the requests of a traffic phase that begins at `now`, or as soon as there is a
    /// connection.
    pub(super) fn new(now: Timestamp, traffic: &Traffic) -> Self {
        let kind = match *traffic {
            Traffic::Download { size }
            | Traffic::Parallel { size, .. }
            | Traffic::Requests { size, .. } => Kind::Get(Order::Content(size)),
            Traffic::Upload { size } => Kind::Post(size),
            Traffic::Paced { rate, chunk, size } => Kind::Get(Order::Paced { size, rate, chunk }),
            Traffic::Cancelled { size, .. } => Kind::Cancelled { size },
            Traffic::Bulk { .. } => Kind::Get(Order::Content(ENDLESS)),
            Traffic::Idle { .. } | Traffic::Together { .. } | Traffic::Sequence { .. } => {
                Kind::Get(Order::Content(0))
            }
        };
        let spaced = |every: Option<Duration>| every.map_or(Spacing::Serial, Spacing::Every);
        let (left, spacing) = match *traffic {
            Traffic::Parallel { count, .. } => (count, Spacing::Every(Duration::ZERO)),
            Traffic::Requests { count, every, .. } | Traffic::Cancelled { count, every, .. } => {
                (count, spaced(every))
            }
            Traffic::Idle { .. } | Traffic::Together { .. } | Traffic::Sequence { .. } => {
                (0, Spacing::Serial)
            }
            _ => (1, Spacing::Serial),
        };
        let lasts_until = match *traffic {
            Traffic::Idle { length } => Some(now + length),
            _ => None,
        };
        Self { kind, left, spacing, next_at: None, lasts_until, is_blocked: false }
    }

    /// Returns the next request. If the message will be canceled, `random` determines after how
    /// many bytes.
    pub(super) fn inquiry(&self, random: &mut Random) -> Inquiry {
        match self.kind {
            Kind::Get(order) => {
                let expected = match order {
                    Order::Content(size)
                    | Order::Paced { size, .. }
                    | Order::Cancelled { size, .. } => size,
                };
                Inquiry { method: Method::GET, order, upload: None, expected }
            }
            Kind::Post(size) => Inquiry {
                method: Method::POST,
                order: Order::Content(0),
                upload: Some(size),
                expected: 0,
            },
            Kind::Cancelled { size } => {
                let turn = self.left % Cancel::ALL.len() as u64;
                let cancel = Cancel::ALL[turn as usize];
                let after = 1 + random.below(size.saturating_sub(1));
                let order = Order::Cancelled { cancel, size, after };
                match cancel.is_upload() {
                    true => {
                        Inquiry { method: Method::POST, order, upload: Some(size), expected: 0 }
                    }
                    false => Inquiry { method: Method::GET, order, upload: None, expected: size },
                }
            }
        }
    }

    pub(super) fn is_due(&self, now: Timestamp, is_idle: bool) -> bool {
        match self.spacing {
            Spacing::Serial => is_idle,
            Spacing::Every(_) => self.next_at.is_none_or(|at| at <= now),
        }
    }

    pub(super) fn on_begun(&mut self, now: Timestamp) {
        self.left -= 1;
        if let Spacing::Every(every) = self.spacing {
            self.next_at = Some(self.next_at.unwrap_or(now) + every);
        }
    }

    /// Returns whether all requests have been made and the plan's minimum duration has elapsed.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.left == 0 && self.lasts_until.is_none_or(|until| until <= now)
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let next = self.next_at.filter(|_| self.left > 0 && !self.is_blocked);
        next.into_iter().chain(self.lasts_until).min()
    }
}
