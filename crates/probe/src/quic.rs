//! One side of one QUIC connection (RFC 9000), without I/O, that sends what its caller requests.

mod config;
mod credentials;
mod endpoint;
mod frame;
mod initial;
mod keys;
mod opening;
mod packet;
mod parameters;
mod reassembly;
mod record;
mod space;
mod streams;
mod tls;
mod tls_messages;

pub use config::{Config, ParameterEdit, Role, TlsEdits, Trust};
pub use credentials::{Identity, SessionCache};
pub use endpoint::{Close, CloseOrigin, Endpoint, EndpointError, Progress, Transmit};
pub(crate) use frame::put_varint;
pub use frame::{AckRange, CloseLayer, Frame, Way};
pub use packet::{Level, Packet, Sealing};
pub use parameters::{Parameters, known_name};
pub(crate) use record::milliseconds;
pub use record::{PacketKind, PacketRecord, Record, Side};
pub use streams::StreamState;
