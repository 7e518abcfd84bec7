//! The capsules of IP tunnels (RFC 9484 §4.7).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use clearway_http3::Capsule;
use clearway_wire::{Reader, VarInt};
use ipnet::IpNet;

use super::CapsuleFault;
use super::routes::{AddressRange, Routes};
use crate::capsule::put_varint;

/// The type of the ADDRESS_ASSIGN capsule.
pub const ADDRESS_ASSIGN: u64 = 0x01;
/// The type of the ADDRESS_REQUEST capsule.
pub const ADDRESS_REQUEST: u64 = 0x02;
/// The type of the ROUTE_ADVERTISEMENT capsule.
pub const ROUTE_ADVERTISEMENT: u64 = 0x03;

/// Maximum number of addresses in a capsule, and of addresses that a tunnel requests.
pub const MAX_ADDRESSES: usize = 256;

/// Maximum number of address ranges in a ROUTE_ADVERTISEMENT capsule.
pub const MAX_ROUTES: usize = 1024;

/// An Assigned Address (RFC 9484 §4.7.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AssignedAddress {
    /// The Request ID of the request; 0 if there was none.
    pub request_id: u64,
    /// The addresses that the receiver may use. Bits after the prefix length are zero.
    pub prefix: IpNet,
}

impl AssignedAddress {
    /// Creates the rejection of a request: no address was assigned (RFC 9484 §4.7.2).
    pub fn rejection(request: &RequestedAddress) -> Self {
        let address: IpAddr = match request.prefix {
            IpNet::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpNet::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self { request_id: request.request_id, prefix: address.into() }
    }

    /// Returns whether no address was assigned.
    pub fn is_rejection(&self) -> bool {
        self.prefix.addr().is_unspecified()
            && self.prefix.prefix_len() == self.prefix.max_prefix_len()
    }
}

/// A Requested Address (RFC 9484 §4.7.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestedAddress {
    /// The Request ID, which is nonzero and used only once.
    pub request_id: u64,
    /// The preferred prefix. An unspecified address requests any address.
    pub prefix: IpNet,
}

/// A capsule of an IP tunnel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IpCapsule {
    /// All addresses that are assigned to the receiver.
    AddressAssign(Vec<AssignedAddress>),
    /// A request for addresses.
    AddressRequest(Vec<RequestedAddress>),
    /// All address ranges that the sender routes.
    RouteAdvertisement(Routes),
}

impl IpCapsule {
    /// Decodes a capsule; `None` if RFC 9484 does not define its type.
    ///
    /// # Errors
    /// The reason why the capsule is malformed.
    pub fn decode(capsule_type: u64, value: &[u8]) -> Option<Result<Self, CapsuleFault>> {
        let mut reader = Reader::new(value);
        Some(match capsule_type {
            ADDRESS_ASSIGN => entries(&mut reader, MAX_ADDRESSES, |reader| {
                let (request_id, prefix) = address(reader)?;
                Ok(AssignedAddress { request_id, prefix })
            })
            .map(Self::AddressAssign),
            ADDRESS_REQUEST => address_request(&mut reader).map(Self::AddressRequest),
            ROUTE_ADVERTISEMENT => entries(&mut reader, MAX_ROUTES, range)
                .and_then(Routes::new)
                .map(Self::RouteAdvertisement),
            _ => return None,
        })
    }

    /// Returns the encoded capsule, with its header.
    pub fn encode(&self) -> Bytes {
        let mut value = Vec::new();
        let capsule_type = match self {
            Self::AddressAssign(addresses) => {
                for it in addresses {
                    put_address(&mut value, it.request_id, it.prefix);
                }
                ADDRESS_ASSIGN
            }
            Self::AddressRequest(addresses) => {
                for it in addresses {
                    put_address(&mut value, it.request_id, it.prefix);
                }
                ADDRESS_REQUEST
            }
            Self::RouteAdvertisement(routes) => {
                for range in routes.ranges() {
                    put_version(&mut value, range.start);
                    put_octets(&mut value, range.start);
                    put_octets(&mut value, range.end);
                    value.push(range.protocol);
                }
                ROUTE_ADVERTISEMENT
            }
        };
        Capsule::encode(capsule_type, &value)
    }
}

/// Reads entries up to the end of the capsule.
fn entries<T>(
    reader: &mut Reader<'_>,
    maximum: usize,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, CapsuleFault>,
) -> Result<Vec<T>, CapsuleFault> {
    let mut entries = Vec::new();
    while !reader.is_empty() {
        if entries.len() >= maximum {
            return Err(CapsuleFault::TooManyEntries);
        }
        entries.push(read(reader)?);
    }
    Ok(entries)
}

fn address_request(reader: &mut Reader<'_>) -> Result<Vec<RequestedAddress>, CapsuleFault> {
    let requests = entries(reader, MAX_ADDRESSES, |reader| {
        let (request_id, prefix) = address(reader)?;
        match request_id {
            0 => Err(CapsuleFault::ZeroRequestId),
            _ => Ok(RequestedAddress { request_id, prefix }),
        }
    })?;
    if requests.is_empty() {
        return Err(CapsuleFault::NoRequestedAddress);
    }
    Ok(requests)
}

/// Reads an Assigned Address or a Requested Address.
fn address(reader: &mut Reader<'_>) -> Result<(u64, IpNet), CapsuleFault> {
    let request_id =
        VarInt::decode(reader, "Request ID").map_err(|_| CapsuleFault::Truncated)?.get();
    let version = byte(reader)?;
    let address = octets(reader, version)?;
    let length = byte(reader)?;
    let prefix = IpNet::new(address, length).map_err(|_| CapsuleFault::PrefixLength(length))?;
    match prefix.trunc() == prefix {
        true => Ok((request_id, prefix)),
        false => Err(CapsuleFault::HostBits),
    }
}

fn range(reader: &mut Reader<'_>) -> Result<AddressRange, CapsuleFault> {
    let version = byte(reader)?;
    let (start, end) = (octets(reader, version)?, octets(reader, version)?);
    Ok(AddressRange { start, end, protocol: byte(reader)? })
}

fn byte(reader: &mut Reader<'_>) -> Result<u8, CapsuleFault> {
    reader.u8("capsule").map_err(|_| CapsuleFault::Truncated)
}

fn octets(reader: &mut Reader<'_>, version: u8) -> Result<IpAddr, CapsuleFault> {
    let address = match version {
        4 => reader.array::<4>("IP Address").map(IpAddr::from),
        6 => reader.array::<16>("IP Address").map(IpAddr::from),
        _ => return Err(CapsuleFault::IpVersion(version)),
    };
    address.map_err(|_| CapsuleFault::Truncated)
}

fn put_address(bytes: &mut Vec<u8>, request_id: u64, prefix: IpNet) {
    put_varint(bytes, request_id);
    put_version(bytes, prefix.addr());
    put_octets(bytes, prefix.addr());
    bytes.push(prefix.prefix_len());
}

fn put_version(bytes: &mut Vec<u8>, address: IpAddr) {
    bytes.push(if address.is_ipv4() { 4 } else { 6 });
}

fn put_octets(bytes: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => bytes.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes.extend_from_slice(&address.octets()),
    }
}

#[cfg(test)]
#[path = "control_tests.rs"]
mod tests;
