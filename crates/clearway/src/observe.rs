use core::fmt;
use std::sync::Arc;

use clearway_transport::{Observer, Side};

/// Creates an observer for each connection, for example for traces, metrics or checks.
///
/// Closures of type `Fn(Side) -> Option<Box<dyn Observer>>` are factories.
///
/// If a factory panics, the connection has no observer; if an observer panics, it is dropped. The
/// connection continues. Both kinds of panic are counted in
/// [`ShardStatistics::panics`](crate::ShardStatistics::panics), except if the factory was called
/// for a client's connection, on the caller's thread.
pub trait ObserverFactory: Send + Sync {
    /// Returns an observer for a new connection, in which this endpoint has the role `side`; `None`
    /// if the connection should not be observed.
    fn observer(&self, side: Side) -> Option<Box<dyn Observer>>;
}

impl<F> ObserverFactory for F
where
    F: Fn(Side) -> Option<Box<dyn Observer>> + Send + Sync,
{
    fn observer(&self, side: Side) -> Option<Box<dyn Observer>> {
        self(side)
    }
}

/// An optional observer factory.
#[derive(Clone, Default)]
pub(crate) struct Observers(Option<Arc<dyn ObserverFactory>>);

impl Observers {
    pub(crate) fn new(factory: Arc<dyn ObserverFactory>) -> Self {
        Self(Some(factory))
    }

    pub(crate) fn observer(&self, side: Side) -> Option<Box<dyn Observer>> {
        const UNOBSERVED: &str = "observer factory panicked; the connection has no observer";
        let factory = self.0.as_ref()?;
        clearway_io::guard(UNOBSERVED, || factory.observer(side)).flatten()
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Observers(..)" } else { "Observers(none)" })
    }
}
