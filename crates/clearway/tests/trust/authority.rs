//! Certificate authorities and the certificates that they have signed.

use std::sync::{Arc, LazyLock};

use clearway::Identity;
use clearway::rustls::RootCertStore;
use clearway::rustls::crypto::aws_lc_rs;
use clearway::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use clearway::rustls::sign::CertifiedKey;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa};
use rcgen::{Issuer, KeyPair};

/// A certificate authority for clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ca {
    A,
    B,
}

struct Authority {
    roots: Arc<RootCertStore>,
    /// A client certificate signed by this authority.
    client: Arc<CertifiedKey>,
    /// The DER certificate chain, as this library's API takes it.
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Ca {
    fn authority(self) -> &'static Authority {
        static AUTHORITIES: LazyLock<[Authority; 2]> =
            LazyLock::new(|| ["Authority A", "Authority B"].map(Authority::new));
        let [a, b] = &*AUTHORITIES;
        match self {
            Self::A => a,
            Self::B => b,
        }
    }

    pub(crate) fn roots(self) -> Arc<RootCertStore> {
        self.authority().roots.clone()
    }

    pub(crate) fn client(self) -> Arc<CertifiedKey> {
        self.authority().client.clone()
    }

    pub(crate) fn identity(self) -> Identity {
        let Authority { chain, key, .. } = self.authority();
        Identity::from_der(chain.clone(), key.clone_key()).unwrap()
    }

    /// Returns the authority of a client that presents this chain.
    pub(crate) fn of(chain: Option<&[CertificateDer<'_>]>) -> Option<Self> {
        let own = chain?.first().expect("a chain is not empty");
        let signed = |ca: &Self| ca.authority().client.cert.first() == Some(own);
        Some([Self::A, Self::B].into_iter().find(signed).expect("nobody else has a certificate"))
    }
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, name);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(parameters.self_signed(&key).unwrap().der().clone()).unwrap();
        let issuer = Issuer::new(parameters, key);
        let mut parameters = CertificateParams::default();
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = parameters.signed_by(&key, &issuer).unwrap();
        let client = certified(certificate.der().clone(), &key);
        let (chain, key) = (client.cert.clone(), PrivateKeyDer::Pkcs8(key.serialize_der().into()));
        Self { roots: Arc::new(roots), client: Arc::new(client), chain, key }
    }
}

fn certified(certificate: CertificateDer<'static>, key: &KeyPair) -> CertifiedKey {
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    CertifiedKey::from_der(vec![certificate], key, &aws_lc_rs::default_provider()).unwrap()
}

/// The certificate of all servers, for localhost.
pub(crate) fn server() -> &'static Arc<CertifiedKey> {
    static SERVER: LazyLock<Arc<CertifiedKey>> = LazyLock::new(|| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Arc::new(certified(made.cert.der().clone(), &made.signing_key))
    });
    &SERVER
}

/// Returns roots that trust the servers.
pub(crate) fn server_roots() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(server().cert[0].clone()).unwrap();
    Arc::new(roots)
}
