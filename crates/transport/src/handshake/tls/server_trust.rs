use std::sync::Arc;

use rustls::RootCertStore;

/// The servers that a client accepts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerTrust {
    /// Servers whose certificate chains end at one of these roots. A certificate signature that was
    /// found valid is not verified again with the same configuration; everything else, such as
    /// names and times, is checked for each connection.
    Roots(Arc<RootCertStore>),
    /// All servers are accepted, which lets anyone on the path read and change everything. For
    /// tests and measurements only.
    DangerousAnyone,
}
