//! How a connection ended.

use core::fmt;
use core::time::Duration;

use super::errors;
use super::state::State;
use super::{Finding, FindingId, text};
use crate::read::{Close, Event, EventKind, Frame, Packet, PacketType, VantagePoint};

/// How a connection ended, as far as its trace shows. As text, it is one line without the trace's
/// name: "closed by the server (the peer) after 1.2 s: PROTOCOL_VIOLATION (0xa), reason: "…"".
///
/// The reason and the names of unknown errors are text from the peer, which may contain control
/// characters: escape the line before printing it to a terminal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// The kind of ending.
    pub kind: EndingKind,
    /// The time of the end, relative to the trace's first event; the end of the trace if the
    /// connection is still open.
    pub at: Duration,
    /// The endpoint that closed the connection, if it was closed and the trace shows by which
    /// endpoint.
    pub by: Option<Closer>,
    /// The error's name and code. `None` if there was no error.
    pub error: Option<String>,
    /// Whether the connection was closed with an error, rather than because it was no longer
    /// needed.
    pub is_error: bool,
    /// The reason phrase.
    pub reason: Option<String>,
    /// Whether the handshake was complete. `None` if the trace does not contain the handshake.
    pub handshake_is_complete: Option<bool>,
    /// Whether the endpoint that the trace calls local is the server. `None` if the trace does not show it.
    is_server: Option<bool>,
    /// Whether the trace was written at an endpoint, rather than in the network.
    is_of_endpoint: bool,
}

/// The kinds of connection endings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EndingKind {
    /// The connection is open at the end of the trace.
    Open,
    /// An endpoint closed it.
    Closed,
    /// The idle timeout (RFC 9000 §10.1).
    IdleTimeout,
    /// A stateless reset (RFC 9000 §10.3).
    StatelessReset,
}

impl EndingKind {
    /// Returns the kind's name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::IdleTimeout => "idle_timeout",
            Self::StatelessReset => "stateless_reset",
        }
    }
}

/// The endpoint that closed a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closer {
    /// The endpoint that wrote the trace. In a trace from the network, the endpoint whose packets
    /// count as sent.
    Local,
    /// The peer of the endpoint that wrote the trace.
    Peer,
}

impl Closer {
    /// Returns the endpoint's name in JSON, as in qlog.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Peer => "remote",
        }
    }
}

impl Ending {
    /// Returns whether the connection ended abnormally: with an error, by a stateless reset, or
    /// before the handshake was complete. The idle timeout is a normal end.
    pub fn is_failure(&self) -> bool {
        let is_over = self.kind != EndingKind::Open;
        self.is_error
            || self.kind == EndingKind::StatelessReset
            || is_over && self.handshake_is_complete == Some(false)
    }

    /// Returns a description of the endpoint that closed the connection.
    fn closer(&self, by: Closer) -> &'static str {
        match (by, self.is_server) {
            (Closer::Local, Some(true)) | (Closer::Peer, Some(false)) if !self.is_of_endpoint => {
                "the server"
            }
            (_, Some(_)) if !self.is_of_endpoint => "the client",
            (Closer::Local, Some(true)) => "the server (this endpoint)",
            (Closer::Local, Some(false)) => "the client (this endpoint)",
            (Closer::Local, None) => "this endpoint",
            (Closer::Peer, Some(true)) => "the client (the peer)",
            (Closer::Peer, Some(false)) => "the server (the peer)",
            (Closer::Peer, None) => "the peer",
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = text::time(self.at);
        match (self.kind, self.by) {
            (EndingKind::Open, _) => write!(formatter, "still open at the end of the log ({at})")?,
            (EndingKind::IdleTimeout, _) => {
                write!(formatter, "ended by the idle timeout after {at}")?
            }
            (EndingKind::StatelessReset, _) => write!(formatter, "reset by the peer after {at}")?,
            (EndingKind::Closed, Some(by)) => {
                write!(formatter, "closed by {} after {at}", self.closer(by))?;
            }
            (EndingKind::Closed, None) => write!(formatter, "closed after {at}")?,
        }
        match &self.error {
            Some(error) => write!(formatter, ": {error}")?,
            None if self.kind == EndingKind::Closed => formatter.write_str(" without an error")?,
            None => {}
        }
        if let Some(reason) = self.reason.as_ref().filter(|reason| !reason.is_empty()) {
            write!(formatter, ", reason: \"{reason}\"")?;
        }
        if self.handshake_is_complete == Some(false) {
            formatter.write_str("; the handshake was not complete")?;
        }
        Ok(())
    }
}

/// Minimum duration of a handshake that is still in progress at the end of the log to count as
/// failed.
const LONG_HANDSHAKE: Duration = Duration::from_secs(5);

/// Records how a connection ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    closed: Option<Closed>,
    /// Whether the trace contains the handshake, and whether it was completed.
    has_handshake: bool,
    is_complete: bool,
    received: u64,
    sent: u64,
    first: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Closed {
    at: Duration,
    kind: EndingKind,
    by: Option<Closer>,
    close: Close,
}

impl Outcome {
    pub(super) fn on_event(&mut self, event: &Event, state: &State) {
        match &event.kind {
            EventKind::PacketSent(packet) => {
                self.sent = self.sent.saturating_add(1);
                self.on_packet(packet, Closer::Local, event.at);
            }
            EventKind::PacketReceived(packet) => {
                self.received = self.received.saturating_add(1);
                // Decrypting such a packet requires the keys of the complete handshake.
                self.is_complete |= packet.packet_type == PacketType::OneRtt;
                self.on_packet(packet, Closer::Peer, event.at);
            }
            EventKind::ConnectionState(name) => {
                self.is_complete |= matches!(
                    &**name,
                    "handshake_complete" | "handshake_completed" | "handshake_confirmed" | "active"
                );
            }
            EventKind::Closed(close) => self.on_closed(close, event.at, state),
            _ => {}
        }
    }

    fn on_packet(&mut self, packet: &Packet, by: Closer, at: Duration) {
        self.first.get_or_insert(at);
        self.has_handshake |= packet.packet_type == PacketType::Initial;
        for frame in packet.frames.iter().flatten() {
            match frame {
                Frame::HandshakeDone => self.is_complete = true,
                Frame::ConnectionClose(close) => {
                    self.close(at, EndingKind::Closed, Some(by), close)
                }
                _ => {}
            }
        }
    }

    fn on_closed(&mut self, close: &Close, at: Duration, state: &State) {
        let by = close.is_local.map(|is_local| if is_local { Closer::Local } else { Closer::Peer });
        let says = |word: &str| {
            let texts = [&close.trigger, &close.reason, &close.error];
            let says = |text: &&Option<Box<str>>| {
                text.as_deref().is_some_and(|text| text.to_ascii_lowercase().contains(word))
            };
            texts.iter().any(says)
        };
        let says_nothing =
            close.trigger.is_none() && close.reason.is_none() && close.error.is_none();
        // quiche logs no reason. The end was an idle timeout if nothing was received for that long.
        let is_idle = says("idle") || says_nothing && state.was_silent_for_idle_timeout();
        let kind = match is_idle {
            true => EndingKind::IdleTimeout,
            false if says("stateless_reset") => EndingKind::StatelessReset,
            false => EndingKind::Closed,
        };
        self.close(at, kind, by, close);
    }

    /// Records the first reason for closing, and the details that later events add to it.
    fn close(&mut self, at: Duration, kind: EndingKind, by: Option<Closer>, close: &Close) {
        let Some(closed) = &mut self.closed else {
            self.closed = Some(Closed { at, kind, by, close: close.clone() });
            return;
        };
        // The peer responds with a CONNECTION_CLOSE frame that contains no new information.
        if closed.by.is_some() && by.is_some() && closed.by != by {
            return;
        }
        closed.by = closed.by.or(by);
        let known = &mut closed.close;
        if known.error.is_none() && known.code.is_none() {
            known.is_of_application = close.is_of_application.or(known.is_of_application);
        }
        known.error = known.error.take().or_else(|| close.error.clone());
        known.code = known.code.or(close.code);
        known.reason = known.reason.take().or_else(|| close.reason.clone());
    }

    pub(super) fn ending(&self, state: &State, vantage: VantagePoint) -> Ending {
        let is_server = match vantage {
            VantagePoint::Client => Some(false),
            VantagePoint::Server => Some(true),
            // In the network, the packets of one endpoint count as sent: the client's, if it sent the first one.
            VantagePoint::Network => state.is_server.filter(|_| self.sent > 0),
            VantagePoint::Unknown => None,
        };
        let is_of_endpoint = vantage != VantagePoint::Network;
        let handshake_is_complete = self.has_handshake.then_some(self.is_complete);
        let Some(closed) = &self.closed else {
            return Ending {
                kind: EndingKind::Open,
                at: state.now,
                by: None,
                error: None,
                is_error: false,
                reason: None,
                handshake_is_complete,
                is_server,
                is_of_endpoint,
            };
        };
        let (error, is_error) = error(&closed.close);
        let is_closed = closed.kind == EndingKind::Closed;
        Ending {
            kind: closed.kind,
            at: closed.at,
            by: closed.by.filter(|_| is_closed && (is_of_endpoint || is_server.is_some())),
            error: error.filter(|_| is_closed),
            is_error: is_error && is_closed,
            // For other kinds of endings, the reason is redundant.
            reason: closed.close.reason.as_deref().map(str::to_owned).filter(|_| is_closed),
            handshake_is_complete,
            is_server,
            is_of_endpoint,
        }
    }

    /// Returns the findings that are about the end of the connection.
    pub(super) fn findings(&self, ending: &Ending, state: &State) -> Vec<Finding> {
        let mut findings = Vec::new();
        let begin = self.first.unwrap_or_default();
        let took = ending.at.saturating_sub(begin);
        let is_over = ending.kind != EndingKind::Open || took >= LONG_HANDSHAKE;
        let cost = took.as_secs_f64().max(1.0);
        if ending.handshake_is_complete == Some(false) && is_over && self.sent > 0 {
            findings.push(Finding {
                id: FindingId::HandshakeIncomplete,
                severity: cost,
                begin,
                end: ending.at,
                headline: match (self.received, ending.kind) {
                    (0, _) => {
                        format!("Handshake not complete: no response in {}", text::time(took))
                    }
                    (_, EndingKind::Open) => {
                        format!("Handshake not complete after {}", text::time(took))
                    }
                    _ => {
                        format!(
                            "Connection ended after {}, before the handshake was complete",
                            text::time(took)
                        )
                    }
                },
                metrics: vec![
                    ("packets sent", text::count(self.sent)),
                    ("packets received", text::count(self.received)),
                    ("packets dropped", text::count(state.dropped)),
                ],
            });
        }
        if ending.is_error {
            let error = ending.error.clone().unwrap_or_else(|| "unknown error".to_owned());
            let name = error.split(" (").next().unwrap_or_default().to_owned();
            let by = match ending.by {
                Some(Closer::Local) => "Closed by this endpoint",
                Some(Closer::Peer) => "Closed by the peer",
                None => "Closed",
            };
            let mut metrics = vec![("error", error)];
            metrics.extend(ending.reason.clone().map(|reason| ("reason", reason)));
            findings.push(Finding {
                id: FindingId::ClosedWithError,
                // The cause is listed before its consequence.
                severity: cost * 1.001,
                begin,
                end: ending.at,
                headline: format!("{by} with an error: {name}"),
                metrics,
            });
        }
        findings
    }
}

/// Returns the name of the error, and whether it really is an error: connections that are no longer
/// needed are also closed with a code.
fn error(close: &Close) -> (Option<String>, bool) {
    let name = close.error.as_deref().filter(|name| !matches!(*name, "unknown" | "null" | ""));
    let is_of_application = close.is_of_application == Some(true);
    let code_of = match is_of_application {
        true => errors::application_code,
        false => errors::transport_code,
    };
    match (close.code.or_else(|| name.and_then(code_of)), name) {
        (Some(0), _) => (None, false),
        // HTTP/3 closes connections that are no longer needed with H3_NO_ERROR.
        (Some(0x100), _) if is_of_application => (None, false),
        (Some(code), _) if is_of_application => (Some(errors::application(code)), true),
        (Some(code), _) => (Some(errors::transport(code)), true),
        (None, Some(name))
            if name.to_ascii_lowercase().replace([' ', '_'], "").contains("noerror") =>
        {
            (None, false)
        }
        (None, Some(name)) => (Some(name.to_owned()), true),
        (None, None) => (None, close.trigger.as_deref() == Some("error")),
    }
}
