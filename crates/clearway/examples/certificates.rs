//! A server with one certificate for each of two names. It authenticates clients by their
//! certificates, and renews one of its own certificates while it runs.
//!
//!     cargo run --example certificates

use std::error::Error;
use std::sync::Arc;

use clearway::rustls::RootCertStore;
use clearway::{
    Certificates, ClientCertificates, ClientConfig, Endpoint, Identity, ServerConfig, VarInt,
};
use rcgen::{CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

const PROTOCOL: &str = "example-certificates";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A certificate authority for this run, which both endpoints trust. Real programs read PEM
    // files, and pass their content to `Identity::from_pem`.
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone())?;
    let issue = |name: &str, usage: ExtendedKeyUsagePurpose| -> Result<Identity, Box<dyn Error>> {
        let mut parameters = CertificateParams::new(vec![name.to_owned()])?;
        parameters.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &authority)?;
        Ok(Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())?)
    };
    let for_server = |name| issue(name, ExtendedKeyUsagePurpose::ServerAuth);

    let other = for_server("*.example.net")?;
    let certificates =
        Arc::new(Certificates::new([for_server("www.example.org")?, other.clone()])?);
    let config = ServerConfig::with_resolver(certificates.clone())
        .client_certificates(ClientCertificates::Required, roots.clone())
        .application_protocols([PROTOCOL]);
    let server = Endpoint::server("127.0.0.1:0".parse()?, config)?;

    let mine = issue("client", ExtendedKeyUsagePurpose::ClientAuth)?;
    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let before = certificates.identities();
    for name in ["www.example.org", "a.example.net"] {
        // A new configuration for each connection, so that no session is resumed: on resumption,
        // the server sends no certificate.
        let config = ClientConfig::with_roots(roots.clone())
            .client_certificate(mine.clone())
            .application_protocols([PROTOCOL]);
        let connecting = client.connect_with(&config, server.local_address(), name)?;
        let accepting = async { server.accept().await.ok_or("the server is closed") };
        let (connection, accepted) = tokio::join!(connecting, accepting);
        let (connection, accepted) = (connection?, accepted?.await?);
        let shown = connection.peer_identity().and_then(|chain| chain.first());
        let which = before.iter().position(|identity| identity.chain().first() == shown);
        println!("{name}: certificate {which:?}, {:?}", connection.key_exchange_group());
        if accepted.peer_identity() != Some(mine.chain()) {
            return Err("the server has not verified this client".into());
        }
        connection.close(VarInt::ZERO, b"done");

        // The next handshake uses the new certificate; existing connections keep theirs.
        certificates.replace([for_server("www.example.org")?, other.clone()])?;
    }
    client.wait_idle().await;
    Ok(())
}
