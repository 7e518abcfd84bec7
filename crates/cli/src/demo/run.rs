//! One run: a server, a link and a client of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use clearway::congestion::Algorithm;
use clearway::rustls::RootCertStore;
use clearway::{ClientConfig, Endpoint, Observer, ServerConfig, Side, TransportConfig, VarInt};
use clearway_network::{Conditions, LinkConfig, LossModel, LossRule, Probability, Way, Window};
use clearway_qlog::{QlogError, QlogObserver, TraceOptions, WritingThread};

use super::DemoCommand;
use super::client::Download;
use super::display::Display;
use super::outcome::Outcome;
use super::place::{self, Place};
use super::server;
use super::watch::{Watch, Watched};
use crate::certificate::Identity;
use crate::connection_options::trace_options;
use crate::failure::Failure;
use crate::live::Traces;
use crate::observers::together;
use crate::relay::{Relay, RelayConfig};

/// The losses begin behind this many bytes to the client: behind the handshake, which takes 1 to 4 kB,
/// and the head of the answer, but within its first flight, of 12 kB or so. Losses that begin earlier
/// spend themselves on the handshake and collapse nothing.
const LOSS_AFTER: u64 = 6_000;

/// How long the server's connection may take to be forgotten after its end. Nothing depends on it but
/// the number of packets that were lost without need.
const FAREWELL: Duration = Duration::from_secs(3);

/// How long the disk may take for the qlog file of a run, once the run is over.
const WRITING: Duration = Duration::from_secs(5);

/// Where the qlog of all runs goes.
#[derive(Clone)]
pub(super) struct Writer {
    /// To who follows the runs.
    pub(super) live: Option<Traces>,
    /// To files.
    pub(super) thread: WritingThread,
}

/// What one run does.
pub(super) struct Run {
    name: String,
    controller: Algorithm,
    link: LinkConfig,
    size: u64,
    limit: Duration,
    qlog: PathBuf,
    writer: Writer,
}

/// Server, link and what is seen of them.
struct Stage {
    server: Endpoint,
    relay: Relay,
    watch: Watch,
    client: ClientConfig,
    /// Why the qlog file is not whole, if it is not.
    qlog_error: Arc<OnceLock<String>>,
}

impl Run {
    /// The run `number`, counted from 1, of a controller.
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
        // Where nothing is lost, there is no time of losses to be shown.
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

    /// Performs it.
    ///
    /// # Errors
    ///
    /// If it cannot even begin. A download that fails is an outcome.
    pub(super) async fn perform(self, display: &Display) -> Result<Outcome, Failure> {
        let Stage { server, relay, watch, client, qlog_error } = self.prepare()?;
        let address = relay.local_address();
        let mut bar = display.bar(&self.name, self.size, watch.clone(), relay);
        let mut download = Download::new();
        let result = download.perform(&client, address, self.size, self.limit, &mut bar).await;
        let (bytes, time, error) = (download.received, download.time, result.err());
        let relay = bar.finish(bytes, time, error.as_deref());
        let server = farewell(server, relay, &watch).await;
        let is_finished = error.is_none();
        let Self { name, controller, qlog, writer, .. } = self;
        let finish = move || writer.thread.finish(WRITING).is_complete;
        let is_written = tokio::task::spawn_blocking(finish).await.unwrap_or(false);
        let slow = || Some(format!("the disk did not take it within {WRITING:?}"));
        let qlog_error =
            qlog_error.get().cloned().or_else(|| if is_written { None } else { slow() });
        Ok(Outcome { name, controller, is_finished, error, time, bytes, qlog, qlog_error, server })
    }

    fn prepare(&self) -> Result<Stage, Failure> {
        let identity = Identity::development()?;
        let mut roots = RootCertStore::empty();
        for certificate in &identity.chain {
            roots
                .add(certificate.clone())
                .map_err(|error| Failure::new(format!("cannot trust our own: {error}")))?;
        }
        let controller = Arc::new(self.controller);
        let transport = TransportConfig::builder().controller(controller).build()?;
        let watch = Watch::default();
        let qlog_error = Arc::new(OnceLock::new());
        let observers = self.observers(&watch, trace_options(&transport), qlog_error.clone())?;
        // There is one connection.
        let observer = Mutex::new(together(observers));
        let take = move |_: Side| observer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let config = ServerConfig::new(identity.chain, identity.key)
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

    /// What watches the server's connection and writes its qlog; `error` is why that could not go on.
    fn observers(
        &self,
        watch: &Watch,
        options: TraceOptions,
        error: Arc<OnceLock<String>>,
    ) -> Result<Vec<Box<dyn Observer>>, Failure> {
        let path = &self.qlog;
        let file = place::replace(path).map_err(|error| {
            Failure::new(format!("the qlog file {} cannot be written: {error}", path.display()))
                .advise("name another folder with --qlog")
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

/// Ends the server and gives its last metrics.
async fn farewell(server: Endpoint, relay: Relay, watch: &Watch) -> Watched {
    server.close(VarInt::from_u32(0), b"");
    // The metrics are nearly complete without.
    let _ = tokio::time::timeout(FAREWELL, server.wait_idle()).await;
    relay.stop().await;
    watch.metrics()
}
