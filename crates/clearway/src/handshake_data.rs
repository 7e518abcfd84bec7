/// What a handshake has negotiated: see
/// [`Connecting::handshake_data`](crate::Connecting::handshake_data).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HandshakeData {
    /// The application protocol (ALPN).
    pub application_protocol: Option<Vec<u8>>,
    /// The server name that the client requested (SNI).
    pub server_name: Option<String>,
}
