//! One run of the demo, with its own server, link and client.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use clearway::congestion::Algorithm;
use clearway::rustls::RootCertStore;
use clearway::{
    Certificates, ClientConfig, Endpoint, Observer, ServerConfig, Side, TransportConfig, VarInt,
};
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, Probability, Way, Window};
use clearway_qlog::{QlogError, QlogObserver, TraceOptions, WritingThread};

use super::DemoCommand;
use super::client::Download;
use super::display::Display;
use super::outcome::Outcome;
use super::place::{self, Place};
use super::server;
use super::watch::{Watch, Watched};
use crate::certificate::Development;
use crate::connection_options::trace_options;
use crate::failure::Failure;
use crate::live::Traces;
use crate::observers::together;
use crate::relay::{Relay, RelayConfig};

/// Number of bytes sent to the client before losses begin. This is after the handshake (1 to 4 kB)
/// and the response's header section, but within its first flight of about 12 kB. Earlier losses
/// would affect the handshake and not cause a collapse.
const LOSS_AFTER: u64 = 6_000;

/// Maximum time to wait for the server to discard a closed connection. A timeout only affects the
/// count of packets that were spuriously declared lost.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for writing a run's qlog file to disk after the end of the run.
const WRITING: Duration = Duration::from_secs(5);

/// The destinations of the runs' qlog events.
#[derive(Clone)]
pub(super) struct Writer {
    /// The traces that `view --live` can follow.
    pub(super) live: Option<Traces>,
    /// The thread that writes qlog files.
    pub(super) thread: WritingThread,
}

/// The parameters of one run.
pub(super) struct Run {
    name: String,
    controller: Algorithm,
    link: LinkConfig,
    size: u64,
    limit: Duration,
    qlog: PathBuf,
    writer: Writer,
}

/// A running server and link, and their observers.
struct Stage {
    server: Endpoint,
    relay: Relay,
    watch: Watch,
    client: ClientConfig,
    /// The reason that the qlog file is incomplete, if it is.
    qlog_error: Arc<OnceLock<String>>,
}

impl Run {
    /// Creates a controller's run with this number, counted from 1.
    pub(super) fn new(
        command: &DemoCommand,
        controller: Algorithm,
        number: u32,
        place: &Place,
        writer: Writer,
    ) -> Self {
        let way = Way::ToClient;
        let window = Window::AfterBytes { way, bytes: LOSS_AFTER, length: Some(command.loss_for) };
        let model = LossModel::Random { probability: command.loss };
        // Without loss, there is no loss period to show.
        let loses = command.loss != Probability::NEVER && !command.loss_for.is_zero();
        let conditions = Conditions {
            delay: command.rtt / 2,
            tick: Some(command.tick).filter(|tick| !tick.is_zero()),
            loss: Vec::from_iter(loses.then_some(LossRule { model, window })),
            ..Conditions::default()
        };
        let link = LinkConfig {
            to_server: conditions.clone(),
            to_client: conditions,
            seed: command.seed.wrapping_add(u64::from(number - 1)),
            ..LinkConfig::default()
        };
        let name = match command.runs {
            1 => controller.name().to_owned(),
            _ => format!("{} {number}", controller.name()),
        };
        let qlog = place.path(&format!("{}-{number}", controller.name()));
        Self { name, controller, link, size: command.size, limit: command.limit, qlog, writer }
    }

    /// Performs the run.
    ///
    /// # Errors
    ///
    /// Returns an error if the run cannot be started. A failed download is an outcome, not an
    /// error.
    pub(super) async fn perform(self, display: &Display) -> Result<Outcome, Failure> {
        let Stage { server, relay, watch, client, qlog_error } = self.prepare()?;
        let address = relay.local_address();
        let mut bar = display.bar(&self.name, self.size, watch.clone(), relay);
        let mut download = Download::new();
        let result = download.perform(&client, address, self.size, self.limit, &mut bar).await;
        let (bytes, time, error) = (download.received, download.time, result.err());
        let relay = bar.finish(bytes, time, error.as_deref());
        let server = shut_down(server, relay, &watch).await;
        let is_finished = error.is_none();
        let Self { name, controller, qlog, writer, .. } = self;
        let finish = move || writer.thread.finish(WRITING).is_complete;
        let is_written = tokio::task::spawn_blocking(finish).await.unwrap_or(false);
        let slow = || Some(format!("the file was not written to disk within {WRITING:?}"));
        let qlog_error =
            qlog_error.get().cloned().or_else(|| if is_written { None } else { slow() });
        Ok(Outcome { name, controller, is_finished, error, time, bytes, qlog, qlog_error, server })
    }

    fn prepare(&self) -> Result<Stage, Failure> {
        let identity = Development::generate()?.identity;
        let mut roots = RootCertStore::empty();
        for certificate in identity.chain() {
            roots.add(certificate.clone()).map_err(|error| {
                Failure::new(format!("cannot trust the demo's own certificate: {error}"))
            })?;
        }
        let certificates = Certificates::new([identity]);
        let certificates = certificates.map_err(|error| Failure::new(error.to_string()))?;
        let controller = Arc::new(self.controller);
        // Equally sized datagrams make the effect of loss on the window comparable between runs.
        let transport =
            TransportConfig::builder().controller(controller).discover_path_mtu(false).build();
        let transport = transport.map_err(|error| Failure::new(error.to_string()))?;
        let watch = Watch::default();
        let qlog_error = Arc::new(OnceLock::new());
        let observers = self.observers(&watch, trace_options(&transport), qlog_error.clone())?;
        // There is only one connection, so the observer is taken only once.
        let observer = Mutex::new(together(observers));
        let take = move |_: Side| observer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let config = ServerConfig::with_resolver(Arc::new(certificates))
            .transport(transport.clone())
            .observer(Arc::new(take));
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = server::start(any, config, self.size, watch.clone())?;
        let to = server.local_address();
        let relay = Relay::start(RelayConfig { listen: any, to, link: self.link.clone() })?;
        let client = ClientConfig::with_roots(roots)
            .application_protocols([clearway::http3::PROTOCOL])
            .transport(transport);
        Ok(Stage { server, relay, watch, client, qlog_error })
    }

    /// Returns the observers that collect the metrics of the server's connection and write its
    /// qlog. `error` receives the first write error.
    fn observers(
        &self,
        watch: &Watch,
        options: TraceOptions,
        error: Arc<OnceLock<String>>,
    ) -> Result<Vec<Box<dyn Observer>>, Failure> {
        let path = &self.qlog;
        let file = place::replace(path).map_err(|error| {
            Failure::new(format!("cannot write the qlog file {}: {error}", path.display()))
                .advise("choose another folder with --qlog")
        })?;
        let options = TraceOptions { title: Some(format!("demo, {}", self.name)), ..options };
        let keep = move |why: &QlogError| error.set(why.to_string()).unwrap_or_default();
        let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(watch.clone())];
        observers.extend(self.writer.live.as_ref().map(|traces| traces.observer(options.clone())));
        let qlog = QlogObserver::new(file, options).with_error_handler(Arc::new(keep));
        observers.push(Box::new(qlog.on_thread(self.writer.thread.clone())));
        Ok(observers)
    }
}

/// Stops the server and the relay. Returns the last metrics.
async fn shut_down(server: Endpoint, relay: Relay, watch: &Watch) -> Watched {
    server.close(VarInt::from_u32(0), b"");
    // If this times out, the metrics are still nearly complete.
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, server.wait_idle()).await;
    relay.stop().await;
    watch.metrics()
}
