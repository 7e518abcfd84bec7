//! Connection options shared by `serve` and `get`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Args;
use clearway::congestion::Algorithm;
use clearway::{ObserverFactory, Side, TransportConfig, TransportConfigBuilder};
use clearway_network::parse_duration;
use clearway_qlog::{QlogDirectory, RecoveryParameters, ReferenceTime, TraceOptions};

use crate::failure::Failure;
use crate::live::Traces;
use crate::observers::together;
use crate::qlog_files;
use crate::units::size_of_at_least_1_mib;

/// Options of every connection.
#[derive(Args, Debug)]
pub(crate) struct ConnectionOptions {
    /// Congestion controller of this endpoint: reno, cubic or bbr.
    #[arg(long, value_name = "NAME", default_value_t, value_parser = str::parse::<Algorithm>)]
    controller: Algorithm,
    /// Close connections idle for this long; 0 disables this endpoint's timeout.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    idle_timeout: Duration,
    /// Update the keys after this many packets (RFC 9001 §6).
    ///
    /// By default, keys are updated only where the cipher's limit requires it.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    key_update_after: Option<u64>,
    /// Do not request less frequent ACKs (draft-ietf-quic-ack-frequency).
    ///
    /// This endpoint does not request immediate acknowledgments of its probes either.
    #[arg(long)]
    no_ack_frequency: bool,
    /// Write a qlog file per connection into this folder [default: $QLOGDIR].
    ///
    /// A server logs every connection whose client address is validated. Among handshakes that fail
    /// before that, it logs the first 16, then one per second, and at most 1,000 in total.
    #[arg(long, value_name = "DIR")]
    qlog: Option<PathBuf>,
    /// Maximum size of a connection's qlog file.
    ///
    /// When a file has reached this size, its last event records that; the connection continues.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size_of_at_least_1_mib)]
    qlog_max_file: u64,
    /// Maximum total size of this program's qlog files.
    ///
    /// At this size, the oldest files of finished connections are removed. If the files of open
    /// connections take up half of it, recording to the longest of them stops.
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size_of_at_least_1_mib)]
    qlog_max_total: u64,
}

impl ConnectionOptions {
    /// Returns the transport settings selected by the options; the caller may add more settings.
    pub(crate) fn transport(&self) -> TransportConfigBuilder {
        TransportConfig::builder()
            .controller(Arc::new(self.controller))
            .max_idle_timeout(Some(self.idle_timeout).filter(|timeout| !timeout.is_zero()))
            .key_update_after(self.key_update_after)
            .ack_frequency(!self.no_ack_frequency)
    }

    /// Returns a factory for a connection's observers, which write qlog files and serve `view
    /// --live` if these are enabled.
    ///
    /// # Errors
    ///
    /// Returns an error if the qlog files cannot be written.
    pub(crate) fn observers(
        &self,
        transport: &TransportConfig,
        live: Option<Traces>,
    ) -> Result<Option<Arc<dyn ObserverFactory>>, Failure> {
        let directory = self.qlog_directory(transport)?;
        if directory.is_none() && live.is_none() {
            return Ok(None);
        }
        let options = trace_options(transport);
        Ok(Some(Arc::new(move |_: Side| {
            let file = directory.as_ref().map(QlogDirectory::observer);
            let followed = live.as_ref().map(|traces| traces.observer(options.clone()));
            together(file.into_iter().chain(followed).collect())
        })))
    }

    fn qlog_directory(
        &self,
        transport: &TransportConfig,
    ) -> Result<Option<QlogDirectory>, Failure> {
        let from_environment =
            || std::env::var_os("QLOGDIR").filter(|path| !path.is_empty()).map(PathBuf::from);
        let Some(path) = self.qlog.clone().or_else(from_environment) else { return Ok(None) };
        let options =
            TraceOptions { maximum_bytes: self.qlog_max_file, ..trace_options(transport) };
        qlog_files::directory(path, options, self.qlog_max_total).map(Some)
    }
}

/// Returns the qlog options for a connection that has these transport settings and begins now.
pub(crate) fn trace_options(transport: &TransportConfig) -> TraceOptions {
    let wall_clock_at_origin = Some(SystemTime::now());
    TraceOptions {
        reference_time: ReferenceTime::Monotonic { wall_clock_at_origin },
        recovery_parameters: RecoveryParameters::of(transport),
        ..TraceOptions::default()
    }
}
