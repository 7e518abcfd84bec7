use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::Identity;
use crate::IdentityError;

fn made(names: &[&str]) -> (CertificateParams, KeyPair) {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    (CertificateParams::new(names).unwrap(), KeyPair::generate().unwrap())
}

/// Returns a certificate for these names and its key, in PEM.
fn pem(names: &[&str]) -> (String, String) {
    let (parameters, key) = made(names);
    (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[test]
fn names_and_validity_are_those_of_the_certificate() {
    let (mut parameters, key) = made(&["Example.org", "*.example.net", "127.0.0.1"]);
    parameters.not_before = date_time_ymd(2020, 1, 1);
    parameters.not_after = date_time_ymd(2030, 1, 1);
    let certificate = parameters.self_signed(&key).unwrap();
    let identity =
        Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap();
    assert_eq!(identity.names(), ["example.org", "*.example.net"]);
    assert_eq!(identity.chain(), [certificate.der().clone()]);
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let (first, last) = (at(1_577_836_800), at(1_893_456_000));
    assert_eq!((identity.not_before(), identity.not_after()), (first, last));
    let second = Duration::from_secs(1);
    assert!(identity.check_validity(first).is_ok() && identity.check_validity(last).is_ok());
    let error = identity.check_validity(first - second).unwrap_err();
    assert!(matches!(error, IdentityError::NotValidYet { not_before } if not_before == first));
    let error = identity.check_validity(last + second).unwrap_err();
    assert!(matches!(error, IdentityError::Expired { not_after } if not_after == last));
    assert!(!format!("{identity:?}").contains("key"), "{identity:?}");
}

#[test]
fn certificate_and_key_may_be_in_one_text() {
    let (certificate, key) = pem(&["localhost"]);
    let both = format!("{key}\n{certificate}");
    Identity::from_pem(both.as_bytes(), both.as_bytes()).unwrap();
}

#[test]
fn every_fault_has_its_name() {
    let ((certificate, key), (_, other_key)) = (pem(&["localhost"]), pem(&["localhost"]));
    let of = |chain: &str, key: &str| Identity::from_pem(chain.as_bytes(), key.as_bytes());
    let is = |outcome: Result<Identity, IdentityError>, expected: fn(&IdentityError) -> bool| {
        let error = outcome.unwrap_err();
        assert!(expected(&error), "{error:?}");
    };
    is(of("", &key), |error| matches!(error, IdentityError::NoCertificate));
    is(of(&key, &key), |error| matches!(error, IdentityError::NoCertificate));
    is(of(&certificate, &certificate), |error| matches!(error, IdentityError::NoPrivateKey));
    is(of(&certificate, &other_key), |error| matches!(error, IdentityError::KeyMismatch));
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    is(of(&certificate, &encrypted), |error| matches!(error, IdentityError::EncryptedKey));
    let older = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n\
                 -----END RSA PRIVATE KEY-----\n";
    is(of(&certificate, older), |error| matches!(error, IdentityError::EncryptedKey));
    let cut = &certificate[..certificate.len() / 2];
    is(of(cut, &key), |error| matches!(error, IdentityError::CertificatePem(_)));
    let cut = &key[..key.len() / 2];
    is(of(&certificate, cut), |error| matches!(error, IdentityError::KeyPem(_)));
    let empty = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    is(of(empty, &key), |error| matches!(error, IdentityError::InvalidCertificate(_)));
    let empty = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
    is(of(&certificate, empty), |error| matches!(error, IdentityError::InvalidKey(_)));
}
