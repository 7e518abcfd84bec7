//! Tests of errors: error chains do not repeat text, and operations that cannot succeed fail
//! immediately.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clearway::rustls::{self, CertificateError};
use clearway::transport::{
    ConnectError as NotBegun, DatagramError, ExportError as TlsExportError, SessionError,
    TransportError,
};
use clearway::wire::{DecodeError, TransportErrorCode};
use clearway::{
    ClientConfig, ConfigError, ConnectError, ConnectFailure, Connection, ConnectionError,
    DatagramWaitError, EndpointError, ExportError, HotRestartError, IdentityError,
    MemorySessionStore, MigrateError, MigrateFailure, MigrationError, MigrationFailure, ReadError,
    ReadExactError, ReadToEndError, ResetAtError, RotateQuicLbError, SendDatagramError,
    ShardFailure, StreamClosed, TransportConfig, WriteError, http3,
};

use crate::support::{Pair, code, run};

fn os_error() -> io::Error {
    io::Error::from_raw_os_error(98)
}

fn tls() -> rustls::Error {
    rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)
}

fn lost() -> ConnectionError {
    TransportError::tls(TransportErrorCode::crypto(48), tls()).into_connection()
}

trait IntoConnection {
    fn into_connection(self) -> ConnectionError;
}

impl IntoConnection for TransportError {
    fn into_connection(self) -> ConnectionError {
        ConnectionError::TransportError(self)
    }
}

fn no_socket() -> MigrateFailure {
    let local = "192.0.2.1:443".parse().unwrap();
    MigrateFailure::Socket { local, error: Arc::new(os_error()) }
}

/// Returns errors that wrap others, each kind with its deepest possible chain.
fn errors() -> Vec<Box<dyn Error>> {
    let undecodable = || TransportError::from(DecodeError::Truncated { field: "Stream Data" });
    let not_begun = || ConnectFailure::Endpoint(NotBegun::Session(SessionError::Tls(tls())));
    let nested =
        io::Error::other(EndpointError::Config(ConfigError::Tls(SessionError::Tls(tls()))));
    vec![
        Box::new(undecodable()),
        Box::new(undecodable().into_connection()),
        Box::new(lost()),
        Box::new(SessionError::Tls(tls())),
        Box::new(ConfigError::Tls(SessionError::NoApplicationProtocol)),
        Box::new(ConfigError::Tls(SessionError::Tls(tls()))),
        Box::new(ConfigError::Identity(IdentityError::InvalidKey(tls()))),
        Box::new(ConfigError::Identity(IdentityError::InvalidCertificate(tls()))),
        Box::new(ConfigError::NoNativeRoots(Some(Arc::new(os_error())))),
        Box::new(EndpointError::Io(os_error())),
        Box::new(EndpointError::Io(nested)),
        Box::new(EndpointError::Config(ConfigError::Tls(SessionError::NoApplicationProtocol))),
        Box::new(not_begun()),
        Box::new(ConnectFailure::Endpoint(NotBegun::Transport(undecodable()))),
        Box::new(ConnectFailure::ShardFailed(ShardFailure::Panicked("why".into()))),
        Box::new(ConnectError::NotStarted(not_begun())),
        Box::new(ConnectError::Lost(lost())),
        Box::new(ReadError::ConnectionLost(lost())),
        Box::new(ReadExactError::Read(ReadError::ConnectionLost(lost()))),
        Box::new(ReadToEndError::Read(ReadError::ConnectionLost(lost()))),
        Box::new(WriteError::ConnectionLost(lost())),
        Box::new(SendDatagramError::ConnectionLost(lost())),
        Box::new(DatagramWaitError::ConnectionLost(lost())),
        Box::new(MigrateError::NotStarted(no_socket())),
        Box::new(MigrateError::NotStarted(MigrateFailure::Refused(MigrationError::NotAClient))),
        Box::new(MigrateError::Failed(MigrationFailure::NotValidated)),
        Box::new(ExportError::ConnectionLost(lost())),
        Box::new(ExportError::Tls(TlsExportError)),
        Box::new(RotateQuicLbError::NoSeed(os_error())),
        Box::new(HotRestartError::Path { path: "/socket".into(), error: os_error() }),
        Box::new(HotRestartError::NoSeed(os_error())),
        Box::new(http3::Error::Config(ConfigError::Tls(SessionError::Tls(tls())))),
        Box::new(http3::Error::NoSeed(Arc::new(os_error()))),
        Box::new(http3::Error::NotStarted(not_begun())),
        Box::new(http3::Error::Connection(lost())),
        Box::new(http3::Error::Connection(undecodable().into_connection())),
        Box::new(http3::Error::Body(Arc::new(os_error()))),
        Box::new(http3::Error::Send(http3::SendError::Malformed { reason: "why" })),
        Box::new(http3::Error::Datagram(http3::DatagramError::QueueFull)),
        Box::new(io::Error::from(ConnectError::Lost(lost()))),
        Box::new(io::Error::from(ReadError::ConnectionLost(lost()))),
        Box::new(io::Error::from(MigrateError::Failed(MigrationFailure::NotValidated))),
        Box::new(io::Error::from(ConfigError::Tls(SessionError::Tls(tls())))),
        Box::new(DatagramError::QueueFull),
    ]
}

/// Returns the texts of the variants that do not wrap other errors, grouped by error type.
fn texts() -> Vec<Vec<String>> {
    let text = |error: &dyn Error| error.to_string();
    let reset = http3::Code::REQUEST_CANCELLED;
    vec![
        vec![text(&ConfigError::NoClientConfig), text(&ConfigError::TooManyShards { limit: 7 })],
        vec![text(&ReadError::Reset(code(7))), text(&ReadError::ClosedStream)],
        vec![text(&ReadToEndError::TooLong { limit: 7 })],
        vec![text(&WriteError::Stopped(code(7))), text(&WriteError::ClosedStream)],
        vec![text(&ResetAtError::Unsupported), text(&ResetAtError::ClosedStream)],
        vec![
            text(&SendDatagramError::Unsupported),
            text(&SendDatagramError::TooLarge { maximum: 7 }),
            text(&SendDatagramError::QueueFull),
        ],
        vec![text(&DatagramWaitError::NotEnabled)],
        vec![text(&MigrateError::ConnectionEnded)],
        vec![
            text(&http3::Error::WrongProtocol),
            text(&http3::Error::Closed),
            text(&http3::Error::GoingAway),
            text(&http3::Error::Reset(reset)),
            text(&http3::Error::Stopped(reset)),
            text(&http3::Error::Cancelled),
            text(&http3::Error::TimedOut),
            text(&http3::Error::Panicked),
            text(&http3::Error::TooLarge { limit: 7 }),
        ],
    ]
}

#[test]
fn each_error_has_a_text_of_its_own() {
    let of_others = errors().into_iter().map(|error| vec![error.to_string()]);
    for texts in texts().into_iter().chain(of_others) {
        for (place, text) in texts.iter().enumerate() {
            assert!(!text.is_empty() && !text.ends_with('.'), "{text:?}");
            assert!(!texts[..place].contains(text), "two errors have the message {text:?}");
        }
    }
}

/// Programs that use only std can distinguish errors by their `ErrorKind`.
#[test]
fn each_error_has_the_kind_that_std_has_for_it() {
    use io::ErrorKind::*;
    let kind = |error: io::Error| error.kind();
    let ended = |kind, error: ConnectionError| (kind, ReadError::ConnectionLost(error).into());
    let code_of_http = http3::Code::REQUEST_CANCELLED;
    let application =
        ConnectionError::ApplicationClosed { error_code: code(7), reason: Bytes::new() };
    let table: Vec<(io::ErrorKind, io::Error)> = vec![
        (ConnectionReset, ReadError::Reset(code(7)).into()),
        (NotConnected, ReadError::ClosedStream.into()),
        (ConnectionReset, WriteError::Stopped(code(7)).into()),
        (NotConnected, WriteError::ClosedStream.into()),
        ended(NotConnected, ConnectionError::LocallyClosed),
        ended(ConnectionAborted, application),
        ended(ConnectionReset, ConnectionError::Reset),
        ended(TimedOut, ConnectionError::TimedOut),
        ended(ConnectionRefused, ConnectionError::Unreachable),
        ended(ConnectionRefused, ConnectionError::Refused),
        ended(Other, lost()),
        (TimedOut, WriteError::ConnectionLost(ConnectionError::TimedOut).into()),
        (TimedOut, ConnectError::Lost(ConnectionError::TimedOut).into()),
        (TimedOut, ConnectionError::TimedOut.into()),
        (UnexpectedEof, ReadExactError::FinishedEarly(7).into()),
        (ConnectionReset, ReadExactError::Read(ReadError::Reset(code(7))).into()),
        (InvalidData, ReadToEndError::TooLong { limit: 7 }.into()),
        (ConnectionReset, ReadToEndError::Read(ReadError::Reset(code(7))).into()),
        (Unsupported, ResetAtError::Unsupported.into()),
        (NotConnected, ResetAtError::ClosedStream.into()),
        (Unsupported, SendDatagramError::Unsupported.into()),
        (InvalidInput, SendDatagramError::TooLarge { maximum: 7 }.into()),
        (WouldBlock, SendDatagramError::QueueFull.into()),
        (TimedOut, SendDatagramError::ConnectionLost(ConnectionError::TimedOut).into()),
        (Unsupported, DatagramWaitError::NotEnabled.into()),
        (TimedOut, DatagramWaitError::ConnectionLost(ConnectionError::TimedOut).into()),
        (InvalidInput, ExportError::Tls(TlsExportError).into()),
        (TimedOut, ExportError::ConnectionLost(ConnectionError::TimedOut).into()),
        (AddrInUse, MigrateError::NotStarted(no_socket()).into()),
        (Other, MigrateError::Failed(MigrationFailure::NotValidated).into()),
        (NotConnected, MigrateError::ConnectionEnded.into()),
        (InvalidInput, IdentityError::NoCertificate.into()),
        (InvalidInput, ConfigError::NoClientConfig.into()),
        (InvalidInput, EndpointError::Config(ConfigError::NoClientConfig).into()),
        (AddrInUse, EndpointError::Io(os_error()).into()),
        (ConnectionAborted, http3::Error::Connection(lost()).into()),
        (ConnectionAborted, http3::Error::Closed.into()),
        (ConnectionReset, http3::Error::Reset(code_of_http).into()),
        (ConnectionReset, http3::Error::Stopped(code_of_http).into()),
        (TimedOut, http3::Error::TimedOut.into()),
        (InvalidInput, http3::Error::Datagram(http3::DatagramError::QueueFull).into()),
        (InvalidInput, http3::Error::Send(http3::SendError::Malformed { reason: "why" }).into()),
        (Other, http3::Error::GoingAway.into()),
    ];
    for (expected, error) in table {
        let text = error.to_string();
        assert_eq!(kind(error), expected, "{text}");
    }
}

/// All operations of connections and streams can be used in functions that return [`io::Error`].
#[test]
fn each_error_converts_into_that_of_std() {
    async fn use_all(client: &Connection, server: &Connection) -> io::Result<()> {
        let mut sending = client.open_uni().await?;
        sending.write_all(b"1234").await?;
        sending.finish()?;
        let mut receiving = server.accept_uni().await?;
        receiving.read_exact(&mut [0; 2]).await?;
        assert_eq!(receiving.received_reset().await?, None);
        assert_eq!(receiving.read_to_end(2).await?, b"34");
        assert_eq!(sending.stopped().await?, None);
        client.export_keying_material(32, b"label", None).await?;
        client.authenticated().await?;
        sending.finish()?;
        Ok(())
    }
    run(async {
        let pair = Pair::new();
        let (client, server) = pair.connect().await;
        let error = use_all(&client, &server).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        assert!(error.get_ref().unwrap().is::<StreamClosed>());
        let datagram = |error: SendDatagramError| io::Error::from(error).kind();
        let sent = client.send_datagram(Bytes::new()).map_err(datagram);
        assert_eq!(sent.unwrap_err(), io::ErrorKind::Unsupported);
    });
}

/// Only a request that a server has certainly not processed may be sent again.
#[test]
fn only_what_was_not_processed_is_unprocessed() {
    let is_unprocessed = |error: http3::Error| error.is_unprocessed();
    assert!(is_unprocessed(http3::Error::GoingAway));
    for (code, expected) in
        [(http3::Code::REQUEST_REJECTED, true), (http3::Code::REQUEST_CANCELLED, false)]
    {
        assert_eq!(is_unprocessed(http3::Error::Reset(code)), expected, "{code}");
        assert_eq!(is_unprocessed(http3::Error::Stopped(code)), expected, "{code}");
    }
    assert!(!is_unprocessed(http3::Error::TimedOut) && !is_unprocessed(http3::Error::Closed));
}

#[test]
fn chains_of_errors_say_nothing_twice() {
    for error in errors() {
        let sources = std::iter::successors(Some(&*error), |error| (*error).source());
        let texts: Vec<String> = sources.map(ToString::to_string).collect();
        for (place, text) in texts.iter().enumerate() {
            let before = texts[..place].iter().find(|before| before.contains(text.as_str()));
            assert_eq!(before, None, "{error:?} repeats {text:?}");
        }
    }
}

/// A TLS error that is not in the text is still found among the sources.
#[test]
fn what_is_not_in_the_text_is_among_the_sources() {
    let causes: [Box<dyn Error>; 5] = [
        Box::new(lost()),
        Box::new(ConnectError::Lost(lost())),
        Box::new(ReadToEndError::Read(ReadError::ConnectionLost(lost()))),
        Box::new(http3::Error::Connection(lost())),
        Box::new(io::Error::from(ConnectError::Lost(lost()))),
    ];
    for error in causes {
        let mut sources = std::iter::successors(error.source(), |error| (*error).source());
        assert!(sources.any(|source| source.is::<rustls::Error>()), "{error:?}");
    }
}

#[test]
fn keying_material_of_any_length_is_exported_or_refused() {
    run(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        for (length, is_possible) in [
            (0, false),
            (32, true),
            (8_160, true),
            (12_241, false),
            (1 << 30, false),
            (usize::MAX, false),
        ] {
            let exported = client.export_keying_material(length, b"label", None).await;
            match is_possible {
                true => assert_eq!(exported.unwrap().len(), length),
                false => assert_eq!(exported, Err(ExportError::Tls(TlsExportError)), "{length}"),
            }
        }
        assert_eq!(pair.client.statistics().panics, 0);
        assert_eq!(client.close_reason(), None);
    });
}

fn with_datagrams() -> clearway::TransportConfigBuilder {
    TransportConfig::builder().max_datagram_frame_size(Some(65_535))
}

#[test]
fn waiting_for_datagrams_that_cannot_come_fails_at_once() {
    run(async {
        let pair = Pair::new();
        let (client, _server) = pair.connect().await;
        assert_eq!(client.read_datagram().await, Err(DatagramWaitError::NotEnabled));
        assert_eq!(client.datagram_outcome().await, Err(DatagramWaitError::NotEnabled));
        client.close(code(0), b"");
        let lost = DatagramWaitError::ConnectionLost(ConnectionError::LocallyClosed);
        assert_eq!(client.read_datagram().await, Err(lost));

        // Datagrams are enabled, but notices are not.
        let pair = Pair::with(with_datagrams().build().unwrap(), |server| server);
        let (client, server) = pair.connect().await;
        assert_eq!(client.datagram_outcome().await, Err(DatagramWaitError::NotEnabled));
        let waiting = tokio::spawn(async move { server.read_datagram().await });
        client.send_datagram(Bytes::from_static(b"it comes")).unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), "it comes");
    });
}

/// Returns a pair whose client has connected once with early data enabled and has a session.
async fn with_session(transport: TransportConfig) -> Pair {
    let pair = Pair::with(transport, |server| server.early_data(true));
    let store = Arc::new(MemorySessionStore::default());
    let config: ClientConfig = pair.config.clone().early_data(true).session_store(store.clone());
    let pair = Pair { config, ..pair };
    let (client, _server) = pair.connect().await;
    // A token may arrive before the session.
    let has_session = || store.contents().iter().any(|(_, sessions, _)| !sessions.is_empty());
    while !has_session() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(client);
    pair
}

/// Whether early data is available does not depend on when a task polls.
#[test]
fn early_data_is_possible_also_for_a_task_that_looks_after_the_handshake() {
    run(async {
        let pair = with_session(TransportConfig::default()).await;
        let connecting = pair.connecting();
        let accepted = pair.server.accept().await.unwrap();
        let server = accepted.await.unwrap();
        let Ok((client, is_accepted)) = connecting.into_0rtt().await else {
            panic!("there is a session");
        };
        assert!(is_accepted.wait().await);
        client.close(code(3), b"late");
        let expected = ConnectionError::ApplicationClosed {
            error_code: code(3),
            reason: Bytes::from_static(b"late"),
        };
        assert_eq!(server.closed().await, expected);
    });
}

/// RFC 9221 §3: datagrams that the server allowed on an earlier connection may be sent in early
/// data.
#[test]
fn datagrams_are_sent_before_the_handshake_is_complete() {
    run(async {
        let transport = with_datagrams().datagram_notices(true).build().unwrap();
        let pair = with_session(transport).await;
        let receiving = async {
            let accepted = pair.server.accept().await.unwrap();
            let connection = match accepted.into_0rtt().await {
                Ok((connection, _)) => connection,
                Err(accepted) => accepted.await.unwrap(),
            };
            let first = connection.read_datagram().await.unwrap();
            (first, connection.read_datagram().await.unwrap(), connection)
        };
        let sending = async {
            let Ok((connection, accepted)) = pair.connecting().into_0rtt().await else {
                panic!("there is a session");
            };
            connection.send_datagram(Bytes::from_static(b"first")).unwrap();
            connection.send_datagram_wait(Bytes::from_static(b"second")).await.unwrap();
            assert!(accepted.wait().await);
            connection
        };
        let ((first, second, server), client) = tokio::join!(receiving, sending);
        assert_eq!((&first[..], &second[..]), (&b"first"[..], &b"second"[..]));
        drop((server, client));
    });
}
