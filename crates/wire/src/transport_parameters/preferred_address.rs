use core::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};

use crate::{ConnectionId, DecodeError, EncodeError, Reader, ResetToken, Writer};

/// The preferred_address transport parameter (RFC 9000 §18.2, figure 22).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreferredAddress {
    /// The IPv4 address and port; `None` if both are zero on the wire.
    pub ipv4: Option<SocketAddrV4>,
    /// The IPv6 address and port; `None` if both are zero on the wire.
    pub ipv6: Option<SocketAddrV6>,
    /// The connection ID with sequence number 1; never empty.
    pub connection_id: ConnectionId,
    /// The stateless reset token for `connection_id`.
    pub stateless_reset_token: ResetToken,
}

impl PreferredAddress {
    /// The maximum encoded length in bytes.
    pub(super) const MAX_ENCODED_LEN: usize = 24 + 1 + ConnectionId::MAX_LEN + ResetToken::LEN;

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let ipv4 = SocketAddrV4::new(
            Ipv4Addr::from(reader.array::<4>("preferred_address IPv4 Address")?),
            u16::from_be_bytes(reader.array("preferred_address IPv4 Port")?),
        );
        let ipv6 = SocketAddrV6::new(
            Ipv6Addr::from(reader.array::<16>("preferred_address IPv6 Address")?),
            u16::from_be_bytes(reader.array("preferred_address IPv6 Port")?),
            0,
            0,
        );
        let connection_id = ConnectionId::decode(reader, "preferred_address Connection ID")?;
        if connection_id.is_empty() {
            return Err(DecodeError::invalid("preferred_address Connection ID", "is empty"));
        }
        let token = reader.array("preferred_address Stateless Reset Token")?;
        Ok(Self {
            ipv4: Some(ipv4).filter(|ipv4| !ipv4.ip().is_unspecified() || ipv4.port() != 0),
            ipv6: Some(ipv6).filter(|ipv6| !ipv6.ip().is_unspecified() || ipv6.port() != 0),
            connection_id,
            stateless_reset_token: ResetToken::new(token),
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        let ipv4 = self.ipv4.unwrap_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
        let ipv6 = self.ipv6.unwrap_or(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0));
        writer.bytes(&ipv4.ip().octets())?;
        writer.bytes(&ipv4.port().to_be_bytes())?;
        writer.bytes(&ipv6.ip().octets())?;
        writer.bytes(&ipv6.port().to_be_bytes())?;
        self.connection_id.encode(writer)?;
        writer.bytes(self.stateless_reset_token.as_bytes())
    }
}
