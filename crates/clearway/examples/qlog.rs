//! A server that writes a qlog file for every second connection. `clearway view` shows such files.
//!
//!     cargo run --example qlog

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use clearway::qlog::{QlogDirectory, Sampled, TraceOptions};
use clearway::rustls::RootCertStore;
use clearway::rustls::pki_types::PrivatePkcs8KeyDer;
use clearway::{ClientConfig, Endpoint, ServerConfig, VarInt};

const PROTOCOL: &str = "example-qlog";
const CONNECTIONS: usize = 4;
const ONE_IN: NonZeroUsize = NonZeroUsize::new(2).unwrap();

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A certificate for this run. A real server reads its certificate and key from files.
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()])?;
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut roots = RootCertStore::empty();
    roots.add(certified.cert.der().clone())?;

    // The files take at most 100 MB; the oldest ones are removed first.
    let folder = std::env::temp_dir().join(format!("clearway-qlog-{}", std::process::id()));
    let logs = QlogDirectory::new(&folder, TraceOptions::default())?
        .with_maximum_bytes(100_000_000)
        .with_error_handler(Arc::new(|error| eprintln!("qlog: {error}")));
    let sampled = Sampled::new(logs.clone(), ONE_IN);

    let config = ServerConfig::new(vec![certified.cert.into()], key.into())
        .application_protocols([PROTOCOL])
        .observer(Arc::new(sampled));
    let server = Endpoint::server("127.0.0.1:0".parse()?, config)?;
    let address = server.local_address();

    let client = Endpoint::client("127.0.0.1:0".parse()?)?;
    let config = ClientConfig::with_roots(roots).application_protocols([PROTOCOL]);
    for _ in 0..CONNECTIONS {
        let connection = client.connect_with(&config, address, "localhost")?.await?;
        connection.close(VarInt::ZERO, b"done");
    }
    client.wait_idle().await;
    server.wait_idle().await;

    // After this, the files are complete unless the disk is very slow.
    let summary = logs.finish(Duration::from_secs(5));
    println!("all files are complete: {}", summary.disk.is_complete);
    for file in std::fs::read_dir(&folder)? {
        let file = file?;
        println!("{}: {} bytes", file.path().display(), file.metadata()?.len());
    }
    Ok(())
}
