//! TLS 1.3 cipher suites by name.

use clearway::rustls::SupportedCipherSuite;
use clearway::rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};

/// Returns the cipher suite with a name from the TLS registry.
pub(super) fn parse(name: &str) -> Result<SupportedCipherSuite, String> {
    match name {
        "TLS_AES_128_GCM_SHA256" => Ok(TLS13_AES_128_GCM_SHA256),
        "TLS_AES_256_GCM_SHA384" => Ok(TLS13_AES_256_GCM_SHA384),
        "TLS_CHACHA20_POLY1305_SHA256" => Ok(TLS13_CHACHA20_POLY1305_SHA256),
        _ => Err(
            "the supported cipher suites are TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and \
                  TLS_CHACHA20_POLY1305_SHA256"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
#[path = "cipher_suites_tests.rs"]
mod tests;
