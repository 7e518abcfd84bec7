//! Conversion of Clearway's errors into those of [`h3::quic`].
//!
//! h3 decides by these errors how to end a request or a connection.

use std::sync::Arc;

use clearway::{ConnectionError, ReadError, WriteError};
use h3::quic::{ConnectionErrorIncoming, StreamErrorIncoming};

/// Converts the reason why a connection ended.
///
/// h3 interprets the error code of a peer's application, and treats a timeout separately. All other
/// reasons are passed on as they are.
pub fn connection_error(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed { error_code, .. } => {
            ConnectionErrorIncoming::ApplicationClose { error_code: error_code.get() }
        }
        ConnectionError::TimedOut
        | ConnectionError::HandshakeTimedOut(_)
        | ConnectionError::CannotSend(_) => ConnectionErrorIncoming::Timeout,
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

/// Converts the reason why nothing more can be read from a stream.
pub fn read_error(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.get() },
        ReadError::ConnectionLost(error) => connection_lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

/// Converts the reason why nothing more can be written to a stream.
pub fn write_error(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => {
            StreamErrorIncoming::StreamTerminated { error_code: code.get() }
        }
        WriteError::ConnectionLost(error) => connection_lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

pub(crate) fn connection_lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: connection_error(error) }
}

#[cfg(test)]
mod tests {
    use clearway::VarInt;

    use super::*;

    const CODE: VarInt = VarInt::from_u32(0x10c);

    #[test]
    fn codes_of_the_peers_application_are_kept() {
        let closed = ConnectionError::ApplicationClosed { error_code: CODE, reason: "".into() };
        assert!(matches!(
            connection_error(closed.clone()),
            ConnectionErrorIncoming::ApplicationClose { error_code: 0x10c }
        ));
        for error in [read_error(ReadError::Reset(CODE)), write_error(WriteError::Stopped(CODE))] {
            assert!(matches!(error, StreamErrorIncoming::StreamTerminated { error_code: 0x10c }));
        }
        let lost = [
            read_error(ReadError::ConnectionLost(closed.clone())),
            write_error(WriteError::ConnectionLost(closed)),
        ];
        for error in lost {
            let StreamErrorIncoming::ConnectionErrorIncoming { connection_error } = error else {
                panic!("{error:?}")
            };
            let ConnectionErrorIncoming::ApplicationClose { error_code } = connection_error else {
                panic!("{connection_error:?}")
            };
            assert_eq!(error_code, 0x10c);
        }
    }

    #[test]
    fn a_timeout_is_one() {
        let error = connection_error(ConnectionError::TimedOut);
        assert!(matches!(error, ConnectionErrorIncoming::Timeout));
    }

    #[test]
    fn other_reasons_are_passed_on() {
        let ConnectionErrorIncoming::Undefined(error) = connection_error(ConnectionError::Reset)
        else {
            panic!()
        };
        assert_eq!(error.downcast_ref(), Some(&ConnectionError::Reset));
        let StreamErrorIncoming::Unknown(error) = read_error(ReadError::ClosedStream) else {
            panic!()
        };
        assert_eq!(error.downcast_ref(), Some(&ReadError::ClosedStream));
        let StreamErrorIncoming::Unknown(error) = write_error(WriteError::ClosedStream) else {
            panic!()
        };
        assert_eq!(error.downcast_ref(), Some(&WriteError::ClosedStream));
    }
}
