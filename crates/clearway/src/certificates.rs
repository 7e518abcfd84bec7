//! Certificates with their keys, and the selection of the one that a server presents.

mod error;
mod identity;
mod resolver;

pub use error::IdentityError;
pub use identity::Identity;
pub(crate) use resolver::Resolving;
pub use resolver::{CertificateResolver, Certificates};
