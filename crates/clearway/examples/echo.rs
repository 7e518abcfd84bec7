//! A server that echoes all data, and a client that verifies the echo.
//!
//!     cargo run --example echo

use std::error::Error;
use std::time::Instant;

use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Connection, Endpoint, ServerConfig, VarInt};

const PROTOCOL: &str = "example-echo";
const SIZE: usize = 4 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A certificate for this run. A real server reads its certificate and key from files.
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone())?;

    let config = ServerConfig::new(vec![certified.cert.into()], key.into())
        .application_protocols([PROTOCOL]);
    let server = Endpoint::server("127.0.0.1:0".parse()?, config)?;
    let address = server.local_address();
    println!("server: listening on {address}");
    tokio::spawn(async move {
        while let Some(connecting) = server.accept().await {
            tokio::spawn(async move {
                match connecting.await {
                    Ok(connection) => serve(connection).await,
                    Err(error) => println!("server: the handshake with a client failed: {error}"),
                }
            });
        }
    });

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    let connection = client.connect_with(&config, address, "localhost")?.await?;
    println!("client: connected to {}", connection.remote_address());

    let data: Vec<u8> = (0..SIZE).map(|at| (at % 251) as u8).collect();
    let began = Instant::now();
    let (mut send, mut recv) = connection.open_bi().await?;
    let writing = async {
        send.write_all(&data).await?;
        send.finish()?;
        Ok::<_, Box<dyn Error>>(())
    };
    let reading = async { Ok(recv.read_to_end(SIZE).await?) };
    let ((), answer) = tokio::try_join!(writing, reading)?;
    if answer != data {
        return Err("the server echoed different bytes".into());
    }
    let elapsed = began.elapsed();
    println!("client: {SIZE} bytes were echoed in {elapsed:.1?}");
    println!("client: round-trip time {:?}", connection.statistics().smoothed_rtt);

    connection.close(VarInt::ZERO, b"done");
    client.wait_idle().await;
    Ok(())
}

/// Echoes every stream of a client as it is received.
async fn serve(connection: Connection) {
    println!("server: {} has connected", connection.remote_address());
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        tokio::spawn(async move {
            let copied = async {
                while let Some(chunk) = recv.read_chunk(usize::MAX).await? {
                    send.write_chunk(chunk).await?;
                }
                send.finish()?;
                Ok::<_, Box<dyn Error + Send + Sync>>(())
            };
            if let Err(error) = copied.await {
                println!("server: {}: {error}", recv.id());
            }
        });
    }
    println!("server: the connection has ended: {}", connection.closed().await);
}
