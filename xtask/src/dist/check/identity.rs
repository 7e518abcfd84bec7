//! Test certificates for localhost.

use std::fs;
use std::path::Path;

/// Writes a self-signed certificate and its key: `NAME.pem` and `NAME.key`.
pub(super) fn write(folder: &Path, name: &str) -> Result<(), String> {
    let identity = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
    let identity = identity.map_err(|error| format!("cannot generate a certificate: {error}"))?;
    let key = identity.signing_key.serialize_pem();
    for (suffix, text) in [("pem", identity.cert.pem()), ("key", key)] {
        let path = folder.join(format!("{name}.{suffix}"));
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
