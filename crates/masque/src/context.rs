//! Context IDs, and the payloads of HTTP Datagrams (RFC 9298 §4, §5; RFC 9484 §5, §6).

use core::fmt;
use std::collections::BTreeSet;

use bytes::{Buf, Bytes};
use clearway_wire::{Reader, VarInt, Writer};

/// This endpoint's role in a tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The endpoint that requested the tunnel.
    Client,
    /// The endpoint that answered the request.
    Proxy,
}

/// A Context ID, which determines the meaning of an HTTP Datagram's payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ContextId(VarInt);

impl ContextId {
    /// The Context ID of UDP payloads and IP packets, 0.
    pub const PAYLOAD: Self = Self(VarInt::ZERO);

    /// Maximum length of an encoded Context ID in bytes.
    pub const MAX_LENGTH: usize = 8;

    /// Returns `id` as a Context ID if it is below 2^62.
    pub const fn new(id: u64) -> Option<Self> {
        match VarInt::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// Returns the ID as a number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the endpoint that may allocate this ID; `None` for [`ContextId::PAYLOAD`].
    pub const fn allocated_by(self) -> Option<Side> {
        match self.get() {
            0 => None,
            id if id % 2 == 0 => Some(Side::Client),
            _ => Some(Side::Proxy),
        }
    }

    /// Returns the length of the encoded ID in bytes.
    pub const fn encoded_len(self) -> usize {
        self.0.encoded_len()
    }

    /// Writes the ID to the start of `buffer`, in front of a payload, and returns its length;
    /// `None` if the buffer is too short.
    pub fn write(self, buffer: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::new(buffer);
        self.0.encode(&mut writer).ok()?;
        Some(writer.written())
    }

    /// Reads the ID at the start of a datagram, and returns it with its length; `None` if the
    /// datagram ends inside it.
    pub fn read(datagram: &[u8]) -> Option<(Self, usize)> {
        let mut reader = Reader::new(datagram);
        let id = VarInt::decode(&mut reader, "Context ID").ok()?;
        Some((Self(id), datagram.len().saturating_sub(reader.remaining())))
    }
}

/// The payload of an HTTP Datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The Context ID.
    pub context: ContextId,
    /// The payload after the Context ID.
    pub payload: Bytes,
}

impl Datagram {
    /// Separates the Context ID from the payload, which is not copied.
    ///
    /// # Errors
    /// [`ContextError::Truncated`] if the datagram ends inside the Context ID.
    pub fn decode(mut datagram: Bytes) -> Result<Self, ContextError> {
        let (context, length) = ContextId::read(&datagram).ok_or(ContextError::Truncated)?;
        datagram.advance(length);
        Ok(Self { context, payload: datagram })
    }

    /// Returns the payload of an HTTP Datagram, with the Context ID in front of a copy of `payload`.
    pub fn encode(context: ContextId, payload: &[u8]) -> Bytes {
        Self::encode_with(context, payload, |_| {})
    }

    /// Encodes a datagram like [`encode`](Self::encode), and calls `change` with the copy of the
    /// payload.
    pub(crate) fn encode_with(
        context: ContextId,
        payload: &[u8],
        change: impl FnOnce(&mut [u8]),
    ) -> Bytes {
        let mut header = [0; ContextId::MAX_LENGTH];
        let length = context.write(&mut header).unwrap_or_default();
        let mut datagram = [header.get(..length).unwrap_or_default(), payload].concat();
        change(datagram.get_mut(length..).unwrap_or_default());
        datagram.into()
    }
}

/// The reason why a Context ID cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ContextError {
    /// A datagram ends inside its Context ID.
    Truncated,
    /// The Context ID 0 is reserved for UDP payloads or IP packets.
    Reserved,
    /// An endpoint used a Context ID that only the other one may allocate.
    WrongParity,
    /// The Context ID is already registered.
    AlreadyRegistered,
    /// The peer has registered too many Context IDs.
    TooMany,
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "an HTTP Datagram ends inside its Context ID",
            Self::Reserved => "Context ID 0 cannot be registered; it is reserved for payloads",
            Self::WrongParity => {
                "the Context ID cannot be registered; clients use even numbers, proxies odd ones"
            }
            Self::AlreadyRegistered => "the Context ID is already registered; use each only once",
            Self::TooMany => "the peer has registered too many Context IDs",
        })
    }
}

impl core::error::Error for ContextError {}

/// Maximum number of Context IDs that a peer can register in a tunnel. They are never released,
/// since none may be allocated twice (RFC 9298 §4).
pub const MAX_REGISTERED: usize = 64;

/// The Context IDs of a tunnel.
#[derive(Clone, Debug)]
pub struct Contexts {
    side: Side,
    /// The ID to allocate next; `None` once all are allocated.
    next: Option<ContextId>,
    registered: BTreeSet<ContextId>,
}

impl Contexts {
    /// Creates the Context IDs of a tunnel. Initially, only [`ContextId::PAYLOAD`] is known.
    pub const fn new(side: Side) -> Self {
        let first = match side {
            Side::Client => 2,
            Side::Proxy => 1,
        };
        Self { side, next: ContextId::new(first), registered: BTreeSet::new() }
    }

    /// Allocates a Context ID of this endpoint; `None` if none is left.
    pub fn allocate(&mut self) -> Option<ContextId> {
        let id = self.next?;
        self.next = id.get().checked_add(2).and_then(ContextId::new);
        Some(id)
    }

    /// Registers a Context ID that the peer has allocated.
    ///
    /// # Errors
    /// If the peer may not allocate this ID, or has allocated it before, or has allocated
    /// [`MAX_REGISTERED`] others.
    pub fn register(&mut self, id: ContextId) -> Result<(), ContextError> {
        match id.allocated_by() {
            None => return Err(ContextError::Reserved),
            Some(side) if side == self.side => return Err(ContextError::WrongParity),
            Some(_) => {}
        }
        if self.registered.contains(&id) {
            return Err(ContextError::AlreadyRegistered);
        }
        if self.registered.len() >= MAX_REGISTERED {
            return Err(ContextError::TooMany);
        }
        self.registered.insert(id);
        Ok(())
    }

    /// Returns whether the ID is [`ContextId::PAYLOAD`], or has been allocated by either endpoint.
    /// Datagrams with an unknown ID are dropped.
    pub fn is_known(&self, id: ContextId) -> bool {
        match id.allocated_by() {
            None => true,
            Some(side) if side == self.side => self.next.is_none_or(|next| id < next),
            Some(_) => self.registered.contains(&id),
        }
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
