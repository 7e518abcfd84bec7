use std::sync::Arc;

use rustls::RootCertStore;

/// The servers that a client accepts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerTrust {
    /// Those whose certificate chains end at one of these roots. A signature of a certificate that was valid is not verified
    /// again with the same configuration; names, times and all else are checked for each connection.
    Roots(Arc<RootCertStore>),
    /// All, so that anyone on the path can read and change everything. For tests and measurements only.
    DangerousAnyone,
}
