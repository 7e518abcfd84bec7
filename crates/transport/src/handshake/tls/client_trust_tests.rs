use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::crypto::aws_lc_rs;

use super::*;

fn root(name: &str) -> CertificateDer<'static> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    parameters.self_signed(&key).unwrap().der().clone()
}

fn roots(certificates: &[&CertificateDer<'static>]) -> ClientRoots {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add((*certificate).clone()).unwrap();
    }
    roots.into()
}

fn fingerprint(trust: &ClientTrust) -> Fingerprint {
    let provider = Arc::new(aws_lc_rs::default_provider());
    *ClientPolicy::of(trust, &provider).unwrap().fingerprint()
}

#[test]
fn policies_are_the_same_if_requirement_and_roots_are() {
    let (a, b) = (root("a"), root("b"));
    let both = fingerprint(&ClientTrust::Required(roots(&[&a, &b])));
    assert_eq!(both, fingerprint(&ClientTrust::Required(roots(&[&b, &a, &b]))), "order");
    let different = [
        fingerprint(&ClientTrust::NotAsked),
        fingerprint(&ClientTrust::Optional(roots(&[&a]))),
        fingerprint(&ClientTrust::Required(roots(&[&a]))),
        fingerprint(&ClientTrust::Required(roots(&[&b]))),
        // A root with the same name but another key.
        fingerprint(&ClientTrust::Required(roots(&[&root("a")]))),
        both,
    ];
    for (index, one) in different.iter().enumerate() {
        assert!(!different[..index].contains(one), "{index}");
    }
}

#[test]
fn policies_that_are_unknown_differ_unless_they_are_named() {
    let random = aws_lc_rs::default_provider().secure_random;
    let unknown = || ClientPolicy::unknown(random).unwrap();
    assert_ne!(unknown().fingerprint(), unknown().fingerprint());
    assert_eq!(unknown().named(b"one").fingerprint(), unknown().named(b"one").fingerprint());
    assert_ne!(unknown().named(b"one").fingerprint(), unknown().named(b"two").fingerprint());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let known = ClientPolicy::of(&ClientTrust::NotAsked, &provider).unwrap();
    assert_ne!(known.named(b"one").fingerprint(), unknown().named(b"one").fingerprint());
}

/// The client roots cannot be replaced with an empty set.
#[test]
fn no_roots_do_not_replace_some() {
    let roots = roots(&[&root("a")]);
    let before = roots.current();
    assert_eq!(roots.replace(RootCertStore::empty()), Err(SessionError::NoClientRoots));
    assert!(Arc::ptr_eq(&before, &roots.current()));
}

/// Regardless of what rustls or a table reports, a client without a chain has no verified identity,
/// and is rejected where one is required.
#[test]
fn a_client_without_a_chain_has_no_identity_where_one_is_required() {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let required = ClientTrust::Required(roots(&[&root("a")]));
    let required = ClientPolicy::of(&required, &provider).unwrap();
    let now = UnixTime::since_unix_epoch(core::time::Duration::from_secs(1_800_000_000));
    assert!(required.identity(None).is_none() && required.identity(Some(&[])).is_none());
    assert!(!required.accepts(None, now) && !required.accepts(Some(&[]), now));
    let anyone = ClientPolicy::of(&ClientTrust::NotAsked, &provider).unwrap();
    assert!(matches!(anyone.identity(None), Some(ClientIdentity::Anonymous)));
    assert!(!anyone.accepts(Some(&[root("a")]), now), "a chain although none was requested");
}
