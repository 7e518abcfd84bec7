//! Connection logs in qlog format, one file per connection (draft-ietf-quic-qlog-main-schema-14).
//!
//! A [`QlogDirectory`] is an [`ObserverFactory`], and [`Sampled`] observes only some connections:
//!
//! ```no_run
//! # fn run(config: clearway::ServerConfig) -> Result<(), Box<dyn std::error::Error>> {
//! use std::num::NonZeroUsize;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use clearway::qlog::{QlogDirectory, Sampled, TraceOptions};
//!
//! let logs = QlogDirectory::new("logs", TraceOptions::default())?.with_maximum_bytes(1 << 30);
//! let one_in_100 = Sampled::new(logs.clone(), NonZeroUsize::new(100).unwrap());
//! let config = config.observer(Arc::new(one_in_100));
//! // And when all connections have ended:
//! logs.finish(Duration::from_secs(5));
//! # Ok(())
//! # }
//! ```
//!
//! A separate thread writes the files. Connections never wait for the disk: events that it cannot
//! keep up with are missing from the logs, and counted in the result of [`QlogDirectory::finish`].
//!
//! `clearway view` displays the files and reports problems; the crate `clearway-qlog` reads them.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};

use clearway_transport::{Observer, Side};

use crate::observe::ObserverFactory;

pub use clearway_qlog::{
    Admission, ErrorHandler, Finished, Open, QlogDirectory, QlogError, QlogObserver, QlogSummary,
    RecoveryParameters, ReferenceTime, TraceOptions, WritingThread,
};

impl ObserverFactory for QlogDirectory {
    fn observer(&self, _: Side) -> Option<Box<dyn Observer>> {
        Some(Self::observer(self))
    }
}

/// Observer factory that observes one in every `one_in` connections.
#[derive(Debug)]
pub struct Sampled<F> {
    factory: F,
    one_in: NonZeroUsize,
    connections: AtomicUsize,
}

impl<F: ObserverFactory> Sampled<F> {
    /// Observes one in `one_in` connections with `factory`, beginning with the first.
    pub const fn new(factory: F, one_in: NonZeroUsize) -> Self {
        Self { factory, one_in, connections: AtomicUsize::new(0) }
    }
}

impl<F: ObserverFactory> ObserverFactory for Sampled<F> {
    fn observer(&self, side: Side) -> Option<Box<dyn Observer>> {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        before.is_multiple_of(self.one_in.get()).then(|| self.factory.observer(side)).flatten()
    }
}
