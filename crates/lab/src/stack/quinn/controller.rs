//! quinn's congestion controllers, using Clearway's names for them.

use std::sync::Arc;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};

use super::QuinnError;

/// One of quinn's controllers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Controller {
    Reno,
    Cubic,
    Bbr,
}

impl Controller {
    pub(super) fn from_name(name: &str) -> Result<Self, QuinnError> {
        match name {
            "reno" => Ok(Self::Reno),
            "cubic" => Ok(Self::Cubic),
            "bbr" => Ok(Self::Bbr),
            _ => Err(QuinnError::UnknownController(name.to_owned())),
        }
    }

    /// Returns the controller's factory, with an initial congestion window of this many bytes;
    /// `None` uses quinn's default.
    pub(super) fn factory(
        self,
        initial_window: Option<u64>,
    ) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Reno => {
                let mut config = NewRenoConfig::default();
                initial_window.map(|window| config.initial_window(window));
                Arc::new(config)
            }
            Self::Cubic => {
                let mut config = CubicConfig::default();
                initial_window.map(|window| config.initial_window(window));
                Arc::new(config)
            }
            Self::Bbr => {
                let mut config = BbrConfig::default();
                initial_window.map(|window| config.initial_window(window));
                Arc::new(config)
            }
        }
    }

    /// Returns the controller's minimum congestion window, in bytes: two datagrams, or four with
    /// BBR.
    pub(super) fn minimum_window(self, datagram_size: u16) -> u64 {
        let datagrams = match self {
            Self::Reno | Self::Cubic => 2,
            Self::Bbr => 4,
        };
        datagrams * u64::from(datagram_size)
    }
}
