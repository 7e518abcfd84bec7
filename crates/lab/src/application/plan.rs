//! The requests that make up a kind of traffic.

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
    /// The earliest time of the next request, once one has begun.
    next_at: Option<Timestamp>,
    /// The time before which the plan is not over.
    lasts_until: Option<Timestamp>,
    /// Whether the peer's stream limit currently prevents further requests; an event announces when
    /// that changes.
    pub(super) is_blocked: bool,
}

/// The kind of the requests.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Get(Order),
    /// A request with this many bytes of content.
    Post(u64),
    /// Messages of this many bytes that are canceled midway, in each of the possible ways in turn.
    Cancelled {
        size: u64,
    },
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Inquiry {
    pub(super) method: Method,
    pub(super) order: Order,
    /// The bytes of content that the request carries.
    pub(super) upload: Option<u64>,
    /// The bytes of content of a complete response.
    pub(super) expected: u64,
}

/// The spacing of consecutive requests.
#[derive(Clone, Copy, Debug)]
enum Spacing {
    /// Each begins when the previous one is complete.
    Serial,
    /// Each begins this long after the beginning of the previous one.
    Every(Duration),
}

/// Longer than anything that can be sent in a run.
const ENDLESS: u64 = 1 << 60;

impl Plan {
    /// Creates the requests of a part of the traffic that begins at `now`, or once there is a
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

    /// Returns the next request. For a message that is to be canceled, `random` determines after
    /// how many bytes.
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

    /// Returns whether all requests were made and the plan's time is over.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.left == 0 && self.lasts_until.is_none_or(|until| until <= now)
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let next = self.next_at.filter(|_| self.left > 0 && !self.is_blocked);
        next.into_iter().chain(self.lasts_until).min()
    }
}
