//! A benchmark of many handshakes that reports the duration of each.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

use clearway::http3::serve_in_shard;
use clearway::{
    ClientConfig, Connection, Endpoint, SavedSession, ServerConfig, SessionStore, VarInt, Version,
};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use peer_common::{HandshakesOptions, HandshakesSummary, KeyExchange};
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::options::ServerOptions;
use crate::{Outcome, http3, tls, transfer};

/// ALPN protocols: HTTP/3, and raw streams for servers without HTTP/3.
const PROTOCOLS: [&[u8]; 2] = [b"h3", b"perf"];

/// Runs an HTTP/3 server with the library's default settings.
pub(crate) fn serve(options: &ServerOptions) -> Outcome {
    let chain = certificates(&options.cert)?;
    let key = PrivateKeyDer::from_pem_file(&options.key)?;
    let groups: [&dyn SupportedKxGroup; 2] = [kx_group::X25519MLKEM768, kx_group::X25519];
    let config = ServerConfig::new(chain, key)
        .application_protocols([http3::ALPN])
        .key_exchange_groups(groups);
    let endpoint = serve_in_shard(options.listen, config, Default::default(), |_| {
        http3::Generator::default()
    })?;
    println!("listening {}", endpoint.local_address());
    loop {
        std::thread::park();
    }
}

fn certificates(path: &Path) -> Outcome<Vec<CertificateDer<'static>>> {
    Ok(CertificateDer::pem_file_iter(path)?.collect::<Result<_, _>>()?)
}

/// A session store without a size limit, or one that stores nothing.
#[derive(Debug)]
struct Sessions {
    keeps: bool,
    newest_last: Mutex<Vec<SavedSession>>,
    used: AtomicUsize,
}

/// Returns a session store that stores nothing, so that all handshakes are full handshakes.
pub(crate) fn no_sessions() -> Arc<dyn SessionStore> {
    Arc::new(Sessions::new(false))
}

impl Sessions {
    fn new(keeps: bool) -> Self {
        Self { keeps, newest_last: Mutex::default(), used: AtomicUsize::new(0) }
    }
}

impl SessionStore for Sessions {
    fn put_session(&self, _server_name: &str, session: SavedSession) {
        if self.keeps {
            self.newest_last.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }

    fn take_session(&self, _server_name: &str, _version: Version) -> Option<SavedSession> {
        let session = self.newest_last.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        self.used.fetch_add(1, Ordering::Relaxed);
        Some(session)
    }

    fn put_token(&self, _server_name: &str, _token: &[u8]) {}

    fn take_token(&self, _server_name: &str) -> Option<Vec<u8>> {
        None
    }
}

/// Runs the handshakes in a task on the shard's thread. A handshake that takes longer than 20 s,
/// the default handshake timeout, counts as failed.
pub(crate) fn run(options: &HandshakesOptions) -> Outcome {
    let sessions = Arc::new(Sessions::new(options.resume));
    let groups: &[&'static dyn SupportedKxGroup] = match options.key_exchange {
        KeyExchange::X25519 => &[kx_group::X25519],
        KeyExchange::X25519mlkem768 => &[kx_group::X25519MLKEM768, kx_group::X25519],
    };
    let config = ClientConfig::with_roots(tls::roots(&options.ca)?)
        .application_protocols(PROTOCOLS)
        .key_exchange_groups(groups.iter().copied())
        .session_store(sessions.clone());
    let endpoint = Endpoint::client(transfer::local_address(options.connect))?;
    let (sender, made) = mpsc::channel();
    let (options, client) = (options.clone(), endpoint.clone());
    endpoint.spawn(async move {
        let _ = sender.send(make(&options, &client, &config).await);
    });
    let open = made.recv()??.print(sessions.used.load(Ordering::Relaxed));
    open.iter().for_each(close);
    Ok(())
}

async fn make(
    options: &HandshakesOptions,
    endpoint: &Endpoint,
    config: &ClientConfig,
) -> Result<HandshakesSummary<Connection>, String> {
    let mut summary = HandshakesSummary::start();
    let mut running = FuturesUnordered::new();
    let connect = |began| {
        let connecting = endpoint.connect_with(config, options.connect, "localhost");
        let connecting = connecting.map_err(|error| error.to_string())?;
        Ok::<_, String>(async move {
            let connection = connecting.await.map_err(|error| error.to_string())?;
            Ok((connection, Instant::elapsed(&began)))
        })
    };
    let mut dues = options.pace().map(|pace| {
        let (sender, dues) = unbounded_channel();
        pace.start(move |_, due| sender.send(due).is_ok());
        dues
    });
    let mut left = if dues.is_some() { 0 } else { options.count };
    loop {
        while left > 0 && running.len() < options.parallel {
            left -= 1;
            running.push(connect(Instant::now())?);
        }
        tokio::select! {
            due = next(&mut dues), if dues.is_some() => match due {
                Some(due) => running.push(connect(due)?),
                None => dues = None,
            },
            Some(done) = running.next() => {
                summary.add(done).iter().for_each(close);
            }
            else => break,
        }
    }
    Ok(summary)
}

/// Waits for the next scheduled handshake, and returns its due time; `None` if there are no more.
async fn next(dues: &mut Option<UnboundedReceiver<Instant>>) -> Option<Instant> {
    dues.as_mut()?.recv().await
}

fn close(connection: &Connection) {
    connection.close(VarInt::from_u32(0x100), b"");
}
