//! A client's request to a server, encoded in the request path.

use clearway_http3::{Code, Event, Role};
use clearway_units::Rate;

/// A client's request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Order {
    /// Requests a response with this many bytes of content.
    Content(u64),
    /// Requests a response that the server produces at a fixed rate, one chunk at a time.
    Paced { size: u64, rate: Rate, chunk: u64 },
    /// A message of `size` bytes that is canceled after `after` bytes.
    Cancelled { cancel: Cancel, size: u64, after: u64 },
}

impl Order {
    pub(super) fn path(&self) -> String {
        match self {
            Self::Content(size) => format!("/{size}"),
            Self::Paced { size, rate, chunk } => {
                format!("/{size}/{}/{chunk}", rate.bytes_per_second())
            }
            Self::Cancelled { cancel, size, after } => {
                format!("/{}/{size}/{after}", cancel.name())
            }
        }
    }

    pub(super) fn parse(path: &str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if let Some(cancel) = Cancel::ALL.into_iter().find(|cancel| cancel.name() == first) {
            let (size, after) = rest.split_once('/')?;
            let (size, after) = (size.parse().ok()?, after.parse().ok()?);
            return Some(Self::Cancelled { cancel, size, after });
        }
        let mut parts = path.split('/').map(|part| part.parse().ok());
        let size: u64 = parts.next()??;
        let Some(rate) = parts.next() else { return Some(Self::Content(size)) };
        Some(Self::Paced { size, rate: Rate::from_bytes_per_second(rate?), chunk: parts.next()?? })
    }

    /// Returns how the message is canceled, if it is.
    pub(super) fn cancel(&self) -> Option<Cancel> {
        match self {
            Self::Cancelled { cancel, .. } => Some(*cancel),
            _ => None,
        }
    }
}

/// A way to cancel a message midway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cancel {
    /// The client rejects the rest of the response: it sends STOP_SENDING, which the server answers
    /// with RESET_STREAM (RFC 9000 §3.5).
    ClientStops,
    /// The client cancels its request's content: it sends RESET_STREAM, and STOP_SENDING for the
    /// response (RFC 9114 §4.1.1).
    ClientResets,
    /// The server cancels its response: it sends RESET_STREAM.
    ServerResets,
    /// The server responds before the request is complete and rejects the rest of it: it sends
    /// STOP_SENDING with H3_NO_ERROR (RFC 9114 §4.1), which the client answers with RESET_STREAM.
    ServerStops,
}

impl Cancel {
    pub(super) const ALL: [Self; 4] =
        [Self::ClientStops, Self::ClientResets, Self::ServerResets, Self::ServerStops];

    fn name(self) -> &'static str {
        match self {
            Self::ClientStops => "client-stops",
            Self::ClientResets => "client-resets",
            Self::ServerResets => "server-resets",
            Self::ServerStops => "server-stops",
        }
    }

    /// Returns whether the canceled message is the client's request.
    pub(super) fn is_upload(self) -> bool {
        matches!(self, Self::ClientResets | Self::ServerStops)
    }

    /// Returns whether `event` at the endpoint `role` is the expected effect of the cancellation.
    /// An endpoint that has already passed its whole message to the transport may not notice the
    /// peer's STOP_SENDING.
    pub(super) fn explains(self, role: Role, event: &Event) -> bool {
        match (role, event) {
            (Role::Client, Event::Reset { code, .. }) => {
                self == Self::ServerResets && *code == Code::REQUEST_CANCELLED
            }
            (Role::Client, Event::Stopped { code, .. }) => {
                self == Self::ServerStops && *code == Code::NO_ERROR
            }
            (Role::Server, Event::Reset { code, .. }) => {
                self == Self::ClientResets && *code == Code::REQUEST_CANCELLED
            }
            (Role::Server, Event::Stopped { code, .. }) => {
                matches!(self, Self::ClientStops | Self::ClientResets)
                    && *code == Code::REQUEST_CANCELLED
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use clearway_http3::{Code, Event, Role};
    use clearway_units::Rate;

    use super::{Cancel, Order};

    #[test]
    fn the_server_parses_every_order_of_the_client() {
        let rate = Rate::from_bytes_per_second(1000);
        let cancelled = Cancel::ALL.map(|cancel| Order::Cancelled { cancel, size: 5, after: 3 });
        let others = [Order::Content(7), Order::Paced { size: 9, rate, chunk: 2 }];
        for order in others.into_iter().chain(cancelled) {
            assert_eq!(Order::parse(&order.path()), Some(order));
        }
        for path in
            ["", "/", "/x", "/client-stops", "/client-stops/5", "/client-stops/5/x", "/5/x/2"]
        {
            assert_eq!(Order::parse(path), None, "{path}");
        }
    }

    /// Each kind of cancellation accounts for one event with one code (or a reset and a stop), and
    /// for no other event.
    #[test]
    fn only_events_of_the_arranged_cancellation_are_expected() {
        let codes = [Code::REQUEST_CANCELLED, Code::NO_ERROR, Code::INTERNAL_ERROR];
        let explained = |cancel: Cancel| {
            let mut found = Vec::new();
            for (role, code) in [Role::Client, Role::Server].into_iter().zip([codes; 2]) {
                for code in code {
                    let (reset, stopped) =
                        (Event::Reset { stream: 0, code }, Event::Stopped { stream: 0, code });
                    found.extend(cancel.explains(role, &reset).then_some((role, "reset", code)));
                    found
                        .extend(cancel.explains(role, &stopped).then_some((role, "stopped", code)));
                }
            }
            found
        };
        let cancelled = Code::REQUEST_CANCELLED;
        assert_eq!(explained(Cancel::ClientStops), [(Role::Server, "stopped", cancelled)]);
        assert_eq!(
            explained(Cancel::ClientResets),
            [(Role::Server, "reset", cancelled), (Role::Server, "stopped", cancelled)]
        );
        assert_eq!(explained(Cancel::ServerResets), [(Role::Client, "reset", cancelled)]);
        assert_eq!(explained(Cancel::ServerStops), [(Role::Client, "stopped", Code::NO_ERROR)]);
        assert!(!Cancel::ClientStops.explains(Role::Server, &Event::Finished { stream: 0 }));
    }
}
