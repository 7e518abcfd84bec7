use clearway::rustls::CipherSuite;

use super::*;

#[test]
fn each_name_is_that_of_its_suite() {
    for (name, suite) in [
        ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
        ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
        ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ] {
        assert_eq!(parse(name).unwrap().suite(), suite);
        // The advice names all cipher suites.
        assert!(parse("RC4").unwrap_err().contains(name), "{name}");
    }
    for wrong in ["", "TLS_AES_128_GCM", "tls_aes_128_gcm_sha256", "TLS_AES_128_CCM_SHA256"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
