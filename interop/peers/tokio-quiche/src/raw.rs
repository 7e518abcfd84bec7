//! Downloads and uploads on streams without HTTP (ALPN `perf`).

use std::collections::BTreeMap;
use std::future::pending;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use peer_common::{PERF, RawClientOptions, RawRequest, RawServerOptions, Sink, Source, Summary};
use tokio::sync::{mpsc, oneshot};
use tokio_quiche::metrics::Metrics;
use tokio_quiche::quic::{HandshakeInfo, QuicheConnection};
use tokio_quiche::quiche::{Error, Shutdown};
use tokio_quiche::settings::QuicSettings;
use tokio_quiche::{ApplicationOverQuic, QuicResult};

use crate::{client, server, settings};

/// Number of bytes to read from a stream per call.
const CHUNK: usize = 1 << 16;
/// The error code for a stream with a wrong upload.
const WRONG_BYTES: u64 = 1;
/// Duration for which a client waits until its connections have sent CONNECTION_CLOSE.
const CLOSING: Duration = Duration::from_secs(1);

fn raw_settings(qlog: Option<&PathBuf>, mtu: Option<u16>) -> Result<QuicSettings> {
    let mut settings = settings(qlog, mtu)?;
    settings.alpn = vec![PERF.to_vec()];
    Ok(settings)
}

/// Serves until SIGTERM or SIGINT.
pub async fn serve(options: &RawServerOptions, mtu: Option<u16>) -> Result<()> {
    let mut settings = raw_settings(options.qlog.as_ref(), mtu)?;
    settings.disable_client_ip_validation = true;
    server::listen(options.listen, &options.cert, &options.key, settings, true, |connection| {
        connection.start(Serving {
            requests: BTreeMap::new(),
            answers: BTreeMap::new(),
            buffer: vec![0; CHUNK],
        });
    })
    .await
}

/// Data that remains to be sent on a stream.
struct Output {
    /// The rest of the last piece, which quiche has not accepted yet.
    piece: Bytes,
    source: Source,
}

impl Output {
    /// Passes as much data to quiche as it accepts. Returns whether quiche has accepted all data
    /// and the end of the stream.
    fn go_on(&mut self, connection: &mut QuicheConnection, stream: u64) -> Result<bool, Error> {
        loop {
            if self.piece.is_empty() {
                self.piece = self.source.next().unwrap_or_default();
            }
            let last = self.source.is_empty();
            match connection.stream_send_zc(stream, self.piece.clone(), last) {
                Ok((sent, _)) if sent < self.piece.len() => {
                    self.piece = self.piece.slice(sent..);
                    return Ok(false);
                }
                Ok(_) if last => return Ok(true),
                Ok(_) => self.piece = Bytes::new(),
                Err(Error::Done | Error::StreamLimit) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Reads the received data on all streams. Returns the streams that failed.
fn read_all(
    connection: &mut QuicheConnection,
    buffer: &mut [u8],
    mut take: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Vec<(u64, anyhow::Error)> {
    let mut failed = Vec::new();
    for stream in connection.readable() {
        loop {
            match connection.stream_recv(stream, buffer) {
                Ok((length, _)) => {
                    if let Err(error) = take(stream, &buffer[..length]) {
                        failed.push((stream, error));
                        break;
                    }
                }
                Err(Error::Done) => break,
                Err(error) => {
                    failed.push((stream, error.into()));
                    break;
                }
            }
            if connection.stream_finished(stream) {
                break;
            }
        }
    }
    failed
}

/// A server's connection.
struct Serving {
    requests: BTreeMap<u64, RawRequest>,
    answers: BTreeMap<u64, Output>,
    buffer: Vec<u8>,
}

impl ApplicationOverQuic for Serving {
    fn on_conn_established(
        &mut self,
        _connection: &mut QuicheConnection,
        _handshake: &HandshakeInfo,
    ) -> QuicResult<()> {
        Ok(())
    }

    fn should_act(&self) -> bool {
        true
    }

    async fn wait_for_data(&mut self, _connection: &mut QuicheConnection) -> QuicResult<()> {
        pending().await
    }

    fn process_reads(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        let Self { requests, answers, buffer } = self;
        let failed = read_all(connection, buffer, |stream, bytes| {
            requests.entry(stream).or_default().take(bytes)
        });
        let reset = |connection: &mut QuicheConnection, stream, error: anyhow::Error| {
            eprintln!("stream {stream}: {error:#}");
            let _ = connection.stream_shutdown(stream, Shutdown::Read, WRONG_BYTES);
            let _ = connection.stream_shutdown(stream, Shutdown::Write, WRONG_BYTES);
        };
        for (stream, error) in failed {
            requests.remove(&stream);
            reset(connection, stream, error);
        }
        // quiche 0.30.0 does not report a stream as readable if the end of the stream arrives
        // together with bytes that were already read.
        let complete = requests.extract_if(.., |stream, _| connection.stream_finished(*stream));
        for (stream, request) in complete.collect::<Vec<_>>() {
            match request.finish() {
                Ok(source) => {
                    answers.insert(stream, Output { piece: Bytes::new(), source });
                }
                Err(error) => reset(connection, stream, error),
            }
        }
        Ok(())
    }

    fn process_writes(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        // A stream for which the client has sent STOP_SENDING is also complete.
        self.answers
            .retain(|stream, answer| matches!(answer.go_on(connection, *stream), Ok(false)));
        Ok(())
    }
}

/// Runs the transfers given in the options, and prints the summary.
pub async fn transfer(options: &RawClientOptions, mtu: Option<u16>) -> Result<()> {
    let (mut starts, mut reports) = (Vec::new(), Vec::new());
    let (alive, mut gone) = mpsc::channel::<()>(1);
    for _ in 0..options.connections {
        let (start, started) = oneshot::channel();
        let (report, result) = oneshot::channel();
        let transferring = Transferring::new(options, started, report, alive.clone());
        let settings = raw_settings(options.qlog.as_ref(), mtu)?;
        let trusted = options.trusted();
        client::connect(options.address, "localhost", trusted, settings, transferring).await?;
        starts.push(start);
        reports.push(result);
    }
    drop(alive);
    let begin = Instant::now();
    for start in starts {
        // An error means that the connection has ended; the connection's report contains the
        // reason.
        let _ = start.send(());
    }
    let mut responses = Vec::new();
    for report in reports {
        let bytes = report.await?.map_err(|error| anyhow!(error))?;
        responses.push((200, bytes));
    }
    let summary = Summary::new(begin, &responses);
    let _ = tokio::time::timeout(CLOSING, gone.recv()).await;
    println!("{summary}");
    Ok(())
}

/// A client's connection.
struct Transferring {
    started: Option<oneshot::Receiver<()>>,
    sending: BTreeMap<u64, Output>,
    receiving: BTreeMap<u64, Sink>,
    buffer: Vec<u8>,
    /// Total number of bytes that all streams transfer.
    bytes: u64,
    report: Option<oneshot::Sender<Result<u64, String>>>,
    /// A sender that is dropped when the connection has ended.
    _alive: mpsc::Sender<()>,
}

impl Transferring {
    fn new(
        options: &RawClientOptions,
        started: oneshot::Receiver<()>,
        report: oneshot::Sender<Result<u64, String>>,
        alive: mpsc::Sender<()>,
    ) -> Self {
        let streams = (0..options.count).map(|number| number * 4);
        let output = || Output {
            piece: Bytes::copy_from_slice(&options.asked().to_be_bytes()),
            source: Source::new(options.uploaded()),
        };
        Self {
            started: Some(started),
            sending: streams.clone().map(|stream| (stream, output())).collect(),
            receiving: streams
                .map(|stream| (stream, Sink::of_generated(options.asked())))
                .collect(),
            buffer: vec![0; CHUNK],
            bytes: options.count * options.bytes,
            report: Some(report),
            _alive: alive,
        }
    }

    fn is_done(&self) -> bool {
        self.sending.is_empty() && self.receiving.is_empty()
    }
}

impl ApplicationOverQuic for Transferring {
    fn on_conn_established(
        &mut self,
        _connection: &mut QuicheConnection,
        _handshake: &HandshakeInfo,
    ) -> QuicResult<()> {
        Ok(())
    }

    fn should_act(&self) -> bool {
        true
    }

    async fn wait_for_data(&mut self, _connection: &mut QuicheConnection) -> QuicResult<()> {
        match &mut self.started {
            Some(started) => {
                started.await?;
                self.started = None;
                Ok(())
            }
            None => pending().await,
        }
    }

    fn process_reads(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        let Self { receiving, buffer, .. } = self;
        let failed = read_all(connection, buffer, |stream, bytes| {
            receiving.get_mut(&stream).map_or(Ok(()), |sink| sink.take(bytes))
        });
        if let Some((stream, error)) = failed.into_iter().next() {
            return Err(error.context(format!("stream {stream}")).into());
        }
        let sending = &self.sending;
        // quiche treats a stream that does not exist yet as finished.
        let complete = receiving.extract_if(.., |stream, _| {
            !sending.contains_key(stream) && connection.stream_finished(*stream)
        });
        for (_, sink) in complete.collect::<Vec<_>>() {
            sink.finish()?;
        }
        Ok(())
    }

    fn process_writes(&mut self, connection: &mut QuicheConnection) -> QuicResult<()> {
        if self.started.is_some() {
            return Ok(());
        }
        let mut failed = None;
        self.sending.retain(|stream, output| match output.go_on(connection, *stream) {
            Ok(is_done) => !is_done,
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        if self.is_done()
            && let Some(report) = self.report.take()
        {
            let _ = report.send(Ok(self.bytes));
            let _ = connection.close(true, 0, b"");
        }
        Ok(())
    }

    fn on_conn_close<M: Metrics>(
        &mut self,
        connection: &mut QuicheConnection,
        _metrics: &M,
        result: &QuicResult<()>,
    ) {
        if let Some(report) = self.report.take() {
            let _ = report.send(Err(format!("{result:?}, peer: {:?}", connection.peer_error())));
        }
    }
}
