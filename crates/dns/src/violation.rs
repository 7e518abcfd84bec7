use core::fmt;

/// A violation of RFC 9250 by the peer (§4.3.3), for which the connection is closed with
/// DOQ_PROTOCOL_ERROR.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Violation {
    /// A message whose ID is not 0 (§4.2.1).
    NonzeroId,
    /// The stream ended before all octets announced by the length field had arrived.
    Truncated,
    /// More than one message on a stream: a second query, or a second response.
    SecondMessage,
    /// The end of the stream did not arrive in time, within its message or after it (§4.2).
    MissingFin,
    /// A message that is not a DNS message.
    Malformed,
    /// A response where a query is expected, or the other way around.
    WrongDirection,
    /// A response to a question that the query does not contain.
    WrongQuestion,
    /// A message with the edns-tcp-keepalive option (§5.5.2).
    TcpKeepalive,
    /// A unidirectional stream.
    UnidirectionalStream,
    /// A bidirectional stream that the server opened.
    ServerStream,
    /// STOP_SENDING from the server.
    StopSending,
}

impl Violation {
    /// Returns a phrase for CONNECTION_CLOSE frames and error messages.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NonzeroId => "a message ID is not 0",
            Self::Truncated => "a stream ended in the middle of its message",
            Self::SecondMessage => "a stream carries more than one message",
            Self::MissingFin => "a stream did not end in time",
            Self::Malformed => "a message is not a DNS message",
            Self::WrongDirection => "a message has the wrong QR bit",
            Self::WrongQuestion => "a response does not match its query",
            Self::TcpKeepalive => "a message has the edns-tcp-keepalive option",
            Self::UnidirectionalStream => "a unidirectional stream was opened",
            Self::ServerStream => "the server opened a stream",
            Self::StopSending => "the server sent STOP_SENDING",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl core::error::Error for Violation {}
