//! Many handshakes, and how long each of them took. The key exchange is X25519MLKEM768, whose ClientHello takes two
//! datagrams.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use clearway::http3::serve_in_shard;
use clearway::transport::{TlsClientConfig, TlsServerConfig};
use clearway::{ClientConfig, Endpoint, ServerConfig, VarInt};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use tokio::task::JoinSet;

use crate::{Outcome, ServerOptions, http3, tls};

const ALPN: &[u8] = b"h3";

#[derive(Args)]
pub(crate) struct HandshakesOptions {
    /// Certificate to trust, PEM.
    #[arg(long)]
    ca: PathBuf,
    /// The address of the server, whose certificate must be for `localhost`.
    #[arg(long)]
    connect: SocketAddr,
    /// Number of handshakes.
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// How many of them run at the same time.
    #[arg(long, default_value_t = 20)]
    parallel: usize,
}

fn provider() -> Arc<CryptoProvider> {
    let kx_groups: Vec<&dyn SupportedKxGroup> = vec![kx_group::X25519MLKEM768, kx_group::X25519];
    Arc::new(CryptoProvider { kx_groups, ..default_provider() })
}

/// Serves over HTTP/3 with the library's default settings.
pub(crate) fn serve(options: &ServerOptions) -> Outcome {
    let chain = certificates(&options.cert)?;
    let key = PrivateKeyDer::from_pem_file(&options.key)?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    let config = ServerConfig::with_sessions(Arc::new(TlsServerConfig::new(Arc::new(config))?));
    let endpoint = serve_in_shard(options.listen, config, Default::default(), |_| http3::Zeros)?;
    println!("listening {}", endpoint.local_address());
    loop {
        std::thread::park();
    }
}

fn certificates(path: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    Ok(CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?)
}

/// Without resumption, so that every handshake is a full one.
fn client(ca: &Path) -> Outcome<ClientConfig> {
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(tls::roots(ca)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(ClientConfig::with_sessions(Arc::new(TlsClientConfig::new(Arc::new(config))?)))
}

/// Makes the handshakes. One that takes longer than 20 s, the default handshake timeout, has failed.
pub(crate) fn run(options: &HandshakesOptions) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(make(options))
}

async fn make(options: &HandshakesOptions) -> Outcome {
    let config = client(&options.ca)?;
    let local = if options.connect.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let endpoint = Endpoint::client(local.parse()?)?;
    let mut running = JoinSet::new();
    let (mut seconds, mut errors) = (Vec::new(), Vec::new());
    for number in 0..options.count + options.parallel {
        if number >= options.parallel {
            match running.join_next().await {
                Some(done) => match done? {
                    Ok(took) => seconds.push(took),
                    Err(error) => errors.push(error),
                },
                None => break,
            }
        }
        if number < options.count {
            let connecting = endpoint.connect_with(&config, options.connect, "localhost")?;
            running.spawn(async move {
                let began = Instant::now();
                let connection = connecting.await.map_err(|error| error.to_string())?;
                let took = began.elapsed().as_secs_f64();
                connection.close(VarInt::from_u32(0x100), b"");
                Ok::<_, String>(took)
            });
        }
    }
    print(seconds, &errors);
    Ok(())
}

/// Prints the result as the other programs do: how many failed, and the times of the others in seconds.
fn print(mut seconds: Vec<f64>, errors: &[String]) {
    for error in errors {
        eprintln!("handshake: {error}");
    }
    seconds.sort_by(f64::total_cmp);
    let seconds: Vec<_> = seconds.iter().map(|time| format!("{time:.4}")).collect();
    println!(r#"{{"failed":{},"seconds":[{}]}}"#, errors.len(), seconds.join(","));
}
