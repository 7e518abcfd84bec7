use core::fmt;

/// The reason why a datagram cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DatagramError {
    /// The peer's SETTINGS have not arrived; until then, no datagrams may be sent (RFC 9297
    /// §2.1.1).
    SettingsUnknown,
    /// This endpoint, the peer or the transport does not support datagrams.
    Unsupported,
    /// This request does not use datagrams: it is not an extended CONNECT (RFC 9297 §2).
    NotForDatagrams,
    /// The stream does not exist, or its sending part has ended.
    StreamClosed,
    /// The payload is larger than the peer or the path allows.
    TooLarge {
        /// The largest payload that can be sent now, in bytes.
        maximum: usize,
    },
    /// Too many datagrams are queued.
    QueueFull,
    /// The connection is closed.
    ConnectionClosed,
}

impl fmt::Display for DatagramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SettingsUnknown => f.write_str("the peer's settings have not arrived yet"),
            Self::Unsupported => f.write_str("datagrams are not supported on this connection"),
            Self::NotForDatagrams => {
                f.write_str("this request does not use datagrams: it is not an extended CONNECT")
            }
            Self::StreamClosed => f.write_str("the stream does not exist or has ended"),
            Self::TooLarge { maximum } => {
                write!(f, "datagram too large: the maximum payload is {maximum} bytes")
            }
            Self::QueueFull => f.write_str("the send queue for datagrams is full"),
            Self::ConnectionClosed => f.write_str("the connection is closed"),
        }
    }
}

impl core::error::Error for DatagramError {}
