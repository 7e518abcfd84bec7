//! A benchmark of many handshakes that reports the duration of each.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use peer_common::{
    HANDSHAKE_TIMEOUT, HandshakesOptions, HandshakesSummary, KeyExchange, PERF, RawServerOptions,
};
use s2n_quic::Connection;
use s2n_quic::client::{Connect, ConnectionAttempt};
use s2n_tls::callbacks::{ConnectionFuture, SessionTicket, SessionTicketCallback};
use s2n_tls::config::ConnectionInitializer;
use s2n_tls::error::Error;
use s2n_tls::security::Policy;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{endpoint, raw};

/// Names of s2n-tls security policies: the newest policies that start with X25519MLKEM768 and with
/// X25519.
const POST_QUANTUM: &str = "default_pq";
const X25519: &str = "20240603";

/// Serves raw streams until SIGTERM or SIGINT.
pub async fn serve(options: &RawServerOptions, mtu: Option<u16>) -> Result<()> {
    endpoint::no_qlog(options.qlog.as_deref())?;
    let mut tls = endpoint::server_tls(&options.cert, &options.key, PERF)?;
    let config = tls.config_mut();
    config.set_security_policy(&Policy::from_version(POST_QUANTUM)?)?;
    config.enable_session_tickets(true)?;
    config.add_session_ticket_key(b"handshakes", &[7; 32], SystemTime::UNIX_EPOCH)?;
    endpoint::serve(options.listen, mtu, false, tls, raw::serve_connection).await
}

/// A ticket store without a size limit, which passes one ticket to each connection.
#[derive(Clone, Default)]
struct Tickets(Arc<Kept>);

#[derive(Default)]
struct Kept {
    newest_last: Mutex<Vec<Vec<u8>>>,
    used: AtomicUsize,
}

impl SessionTicketCallback for Tickets {
    fn on_session_ticket(
        &self,
        _connection: &mut s2n_tls::connection::Connection,
        ticket: &SessionTicket,
    ) {
        let mut bytes = vec![0; ticket.len().unwrap_or(0)];
        if !bytes.is_empty() && ticket.data(&mut bytes).is_ok() {
            self.0.newest_last.lock().unwrap_or_else(PoisonError::into_inner).push(bytes);
        }
    }
}

impl ConnectionInitializer for Tickets {
    fn initialize_connection(
        &self,
        connection: &mut s2n_tls::connection::Connection,
    ) -> Result<Option<Pin<Box<dyn ConnectionFuture>>>, Error> {
        let ticket = self.0.newest_last.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(ticket) = ticket {
            connection.set_session_ticket(&ticket)?;
            self.0.used.fetch_add(1, Ordering::Relaxed);
        }
        Ok(None)
    }
}

/// Runs the handshakes.
pub async fn make(options: &HandshakesOptions, mtu: Option<u16>) -> Result<()> {
    let mut tls = endpoint::client_tls(Some(&options.ca), PERF)?;
    let tickets = Tickets::default();
    let config = tls.config_mut();
    config.set_security_policy(&Policy::from_version(match options.key_exchange {
        KeyExchange::X25519 => X25519,
        KeyExchange::X25519mlkem768 => POST_QUANTUM,
    })?)?;
    if options.resume {
        config.set_session_ticket_callback(tickets.clone())?;
        config.set_connection_initializer(tickets.clone())?;
    }
    let client = endpoint::client(options.connect, mtu, tls)?;
    let mut summary = HandshakesSummary::start();
    let mut running = JoinSet::new();
    let connect = |began: Instant| {
        let connect = Connect::new(options.connect).with_server_name("localhost");
        complete(client.connect(connect), began)
    };
    let mut dues = options.pace().map(|pace| {
        let (sender, dues) = mpsc::unbounded_channel();
        pace.start(move |_, due| sender.send(due).is_ok());
        dues
    });
    let mut left = if dues.is_some() { 0 } else { options.count };
    loop {
        while left > 0 && running.len() < options.parallel {
            left -= 1;
            running.spawn(connect(Instant::now()));
        }
        tokio::select! {
            due = next(&mut dues), if dues.is_some() => match due {
                Some(due) => { running.spawn(connect(due)); }
                None => dues = None,
            },
            Some(done) = running.join_next() => {
                summary.add(done?).iter().for_each(close);
            }
            else => break,
        }
    }
    summary.print(tickets.0.used.load(Ordering::Relaxed)).iter().for_each(close);
    endpoint::close(client).await;
    Ok(())
}

/// Waits for the next scheduled handshake, and returns its due time; `None` if there are no more.
async fn next(dues: &mut Option<mpsc::UnboundedReceiver<Instant>>) -> Option<Instant> {
    dues.as_mut()?.recv().await
}

/// Waits until a handshake is complete, and returns its duration.
async fn complete(
    connecting: ConnectionAttempt,
    began: Instant,
) -> Result<(Connection, Duration), String> {
    let connected = tokio::time::timeout(HANDSHAKE_TIMEOUT, connecting).await;
    let connection = connected
        .map_err(|_| format!("the handshake is not complete after {HANDSHAKE_TIMEOUT:?}"))?
        .map_err(|error| error.to_string())?;
    Ok((connection, began.elapsed()))
}

fn close(connection: &Connection) {
    connection.close(0_u32.into());
}
