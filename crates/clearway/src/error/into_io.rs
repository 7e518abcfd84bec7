//! Conversions into [`io::Error`], for programs whose functions return that. The result wraps the
//! original error, so that [`io::Error::get_ref`] returns it, except where that only wraps a
//! [`ConnectionError`](clearway_transport::ConnectionError) or an `io::Error`.

use std::io;

use clearway_io::MigrateFailure;

use super::{
    ConfigError, ConnectError, DatagramWaitError, EndpointError, ExportError, MigrateError,
    ReadError, ReadExactError, ReadToEndError, ResetAtError, SendDatagramError, StreamClosed,
    WriteError,
};
use crate::certificates::IdentityError;

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NotStarted(_) => io::Error::new(io::ErrorKind::InvalidInput, error),
            ConnectError::Lost(error) => error.into(),
        }
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(_) => io::Error::new(io::ErrorKind::ConnectionReset, error),
            ReadError::ClosedStream => io::Error::new(io::ErrorKind::NotConnected, error),
            ReadError::ConnectionLost(error) => error.into(),
        }
    }
}

impl From<ReadExactError> for io::Error {
    fn from(error: ReadExactError) -> Self {
        match error {
            ReadExactError::Read(error) => error.into(),
            ReadExactError::FinishedEarly(_) => io::Error::new(io::ErrorKind::UnexpectedEof, error),
        }
    }
}

impl From<ReadToEndError> for io::Error {
    fn from(error: ReadToEndError) -> Self {
        match error {
            ReadToEndError::Read(error) => error.into(),
            ReadToEndError::TooLong { .. } => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(_) => io::Error::new(io::ErrorKind::ConnectionReset, error),
            WriteError::ClosedStream => io::Error::new(io::ErrorKind::NotConnected, error),
            WriteError::ConnectionLost(error) => error.into(),
        }
    }
}

impl From<StreamClosed> for io::Error {
    fn from(error: StreamClosed) -> Self {
        io::Error::new(io::ErrorKind::NotConnected, error)
    }
}

impl From<ResetAtError> for io::Error {
    fn from(error: ResetAtError) -> Self {
        let kind = match error {
            ResetAtError::Unsupported => io::ErrorKind::Unsupported,
            ResetAtError::ClosedStream => io::ErrorKind::NotConnected,
        };
        io::Error::new(kind, error)
    }
}

impl From<SendDatagramError> for io::Error {
    fn from(error: SendDatagramError) -> Self {
        let kind = match error {
            SendDatagramError::Unsupported => io::ErrorKind::Unsupported,
            SendDatagramError::TooLarge { .. } => io::ErrorKind::InvalidInput,
            SendDatagramError::QueueFull => io::ErrorKind::WouldBlock,
            SendDatagramError::ConnectionLost(error) => return error.into(),
        };
        io::Error::new(kind, error)
    }
}

impl From<DatagramWaitError> for io::Error {
    fn from(error: DatagramWaitError) -> Self {
        match error {
            DatagramWaitError::NotEnabled => io::Error::new(io::ErrorKind::Unsupported, error),
            DatagramWaitError::ConnectionLost(error) => error.into(),
        }
    }
}

impl From<ExportError> for io::Error {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Tls(_) => io::Error::new(io::ErrorKind::InvalidInput, error),
            ExportError::ConnectionLost(error) => error.into(),
        }
    }
}

impl From<MigrateError> for io::Error {
    fn from(error: MigrateError) -> Self {
        let kind = match &error {
            MigrateError::NotStarted(MigrateFailure::Socket { error, .. }) => error.kind(),
            MigrateError::NotStarted(MigrateFailure::OtherFamily(_)) => io::ErrorKind::InvalidInput,
            MigrateError::ConnectionEnded => io::ErrorKind::NotConnected,
            MigrateError::NotStarted(_) | MigrateError::Failed(_) => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

impl From<IdentityError> for io::Error {
    fn from(error: IdentityError) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

impl From<ConfigError> for io::Error {
    fn from(error: ConfigError) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

impl From<EndpointError> for io::Error {
    fn from(error: EndpointError) -> Self {
        match error {
            EndpointError::Io(error) => error,
            EndpointError::Config(error) => error.into(),
        }
    }
}
