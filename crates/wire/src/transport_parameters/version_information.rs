use crate::{DecodeError, Initiator, Reader, Version};

/// The version_information transport parameter (RFC 9368 §3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionInformation {
    /// The version that the sender has chosen for the connection.
    pub chosen: Version,
    /// The available versions: from a client, the versions compatible with its first flight, in
    /// order of preference, including the chosen one; from a server, its fully deployed versions,
    /// in any order, possibly none.
    pub available: Vec<Version>,
}

const NAME: &str = "version_information";

impl VersionInformation {
    /// The maximum number of available versions that are accepted from the peer.
    pub const MAX_AVAILABLE: usize = 64;

    pub(super) fn decode(value: &mut Reader<'_>, from: Initiator) -> Result<Self, DecodeError> {
        let (versions, rest) = value.take_rest().as_chunks::<4>();
        if !rest.is_empty() {
            return Err(DecodeError::invalid(NAME, "ends in the middle of a version"));
        }
        let (chosen, available) =
            versions.split_first().ok_or(DecodeError::Truncated { field: NAME })?;
        if available.len() > Self::MAX_AVAILABLE {
            return Err(DecodeError::invalid(NAME, "lists more than 64 versions"));
        }
        let version = |bytes: &[u8; 4]| Version(u32::from_be_bytes(*bytes));
        let chosen = version(chosen);
        let available: Vec<Version> = available.iter().map(version).collect();
        if chosen == Version::NEGOTIATION || available.contains(&Version::NEGOTIATION) {
            return Err(DecodeError::invalid(NAME, "contains version 0"));
        }
        if from == Initiator::Client && !available.contains(&chosen) {
            return Err(DecodeError::invalid(NAME, "does not list the chosen version"));
        }
        Ok(Self { chosen, available })
    }

    pub(super) fn encoded(&self) -> Vec<u8> {
        let all = core::iter::once(&self.chosen).chain(&self.available);
        all.flat_map(|version| version.0.to_be_bytes()).collect()
    }
}
