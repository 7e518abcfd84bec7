//! Certificates with their keys, and which of them a server presents.

mod error;
mod identity;
mod resolver;

pub use error::IdentityError;
pub use identity::Identity;
pub(crate) use resolver::Resolving;
pub use resolver::{CertificateResolver, Certificates};
