use std::sync::Arc;

use rustls::RootCertStore;

/// The servers that a client accepts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerTrust {
    /// Servers whose certificate chains end at one of these roots. A valid certificate signature is
    /// not verified again with the same configuration; names, times and everything else are checked
    /// for each connection.
    Roots(Arc<RootCertStore>),
    /// All servers, so that anyone on the path can read and change everything. For tests and
    /// measurements only.
    DangerousAnyone,
}
