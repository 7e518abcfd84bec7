//! The cryptographic libraries, by purpose. This crate's features select them.

#[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
compile_error!(
    "QUIC needs a cryptographic library: enable the feature `aws-lc-rs` (the default) or `ring` of `clearway`, or of \
     `clearway-transport` if you use that crate directly"
);

/// Seals tickets and tokens, and derives keys from this endpoint's secrets.
#[cfg(feature = "aws-lc-rs")]
pub(crate) use aws_lc_rs as sealing;
#[cfg(not(feature = "aws-lc-rs"))]
pub(crate) use ring as sealing;

/// Protects packets, and computes hashes and the HMAC of the key schedule.
#[cfg(not(feature = "ring-packet-protection"))]
pub(crate) use aws_lc_rs as packets;
#[cfg(feature = "ring-packet-protection")]
pub(crate) use ring as packets;

/// Exchanges keys, and creates and verifies signatures.
#[cfg(feature = "aws-lc-rs")]
pub(crate) use rustls::crypto::aws_lc_rs as tls;
#[cfg(not(feature = "aws-lc-rs"))]
pub(crate) use rustls::crypto::ring as tls;
