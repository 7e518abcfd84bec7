//! A client that makes an HTTP/3 request with the crate h3.
//!
//!     cargo run -p clearway-h3 --example h3_client -- https://localhost:4433/ certificate.pem
//!
//! The file has the certificates that the client trusts: the example `h3_server` writes its own.

use std::error::Error;
use std::io::Write;

use bytes::Buf;
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::CertificateDer;
use clearway::rustls::pki_types::pem::PemObject;
use clearway::{ClientConfig, Endpoint};
use http::{Request, Uri};

type BoxError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let mut arguments = std::env::args().skip(1);
    let (Some(uri), Some(file), None) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: h3_client URI CERTIFICATES".into());
    };
    let uri: Uri = uri.parse()?;
    let host = uri.host().ok_or("the URI has no host")?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file)? {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::with_roots(roots).application_protocols(["h3"]);

    let port = uri.port_u16().unwrap_or(443);
    let mut addresses = tokio::net::lookup_host((host, port)).await?;
    let address = addresses.find(|it| it.is_ipv4()).ok_or("the host has no IPv4 address")?;
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?)?;
    let connection = endpoint.connect_with(&config, address, host)?.await?;
    let connection = clearway_h3::Connection::new(connection);
    let (mut driver, mut client) = h3::client::new(connection).await?;
    let driving = tokio::spawn(async move { driver.wait_idle().await });

    let mut stream = client.send_request(Request::get(uri.clone()).body(())?).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    println!("{}", response.status());
    while let Some(mut piece) = stream.recv_data().await? {
        std::io::stdout().write_all(&piece.copy_to_bytes(piece.remaining()))?;
    }

    // The driver closes the connection when the last handle is dropped.
    drop((stream, client));
    let ended = driving.await?;
    if !ended.is_h3_no_error() {
        return Err(ended.into());
    }
    endpoint.wait_idle().await;
    Ok(())
}
