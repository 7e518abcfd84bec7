use core::time::Duration;

use clearway_congestion::ControllerParameters;
use clearway_transport::TransportConfig;

use super::json::Object;

/// The constants of loss detection and congestion control for `recovery_parameters_set`
/// (quic-events §7.1). The defaults are those of RFC 9002.
#[derive(Clone, PartialEq, Debug)]
pub struct RecoveryParameters {
    /// The packet reordering threshold (RFC 9002 §6.1.1).
    pub reordering_threshold: u64,
    /// The tolerated reordering in time, as a multiple of the round-trip time (RFC 9002 §6.1.2).
    pub time_threshold: f64,
    /// The granularity of the timers (RFC 9002 §6.1.2).
    pub timer_granularity: Duration,
    /// The initial round-trip time, before the first sample (RFC 9002 §6.2.2).
    pub initial_rtt: Duration,
    /// The largest UDP payload that is sent, in bytes. This is logged again when it changes.
    pub max_datagram_size: u64,
    /// The initial congestion window in bytes, if it is known.
    pub initial_congestion_window: Option<u64>,
    /// The smallest congestion window in bytes, if it is known. This is logged again when the
    /// controller's snapshot has a different value.
    pub minimum_congestion_window: Option<u64>,
    /// The factor by which the window is multiplied after a loss, if the controller has such a
    /// constant.
    pub loss_reduction_factor: Option<f64>,
    /// The duration of persistent congestion as a multiple of the probe timeout (RFC 9002 §7.6).
    pub persistent_congestion_threshold: u64,
    /// The name of the congestion controller, if it is known.
    pub congestion_controller: Option<String>,
}

impl Default for RecoveryParameters {
    fn default() -> Self {
        Self {
            reordering_threshold: 3,
            time_threshold: 1.125,
            timer_granularity: Duration::from_millis(1),
            initial_rtt: Duration::from_millis(333),
            max_datagram_size: 1200,
            initial_congestion_window: None,
            minimum_congestion_window: None,
            loss_reduction_factor: None,
            persistent_congestion_threshold: 3,
            congestion_controller: None,
        }
    }
}

impl RecoveryParameters {
    /// Returns the parameters that connections with this configuration use.
    pub fn of(config: &TransportConfig) -> Self {
        let max_datagram_size = u64::from(config.initial_datagram_size());
        let controller = config.controller().build(&ControllerParameters {
            max_datagram_size,
            initial_window: config.initial_window(),
            maximum_window: config.maximum_window(),
            seed: 0,
        });
        let snapshot = controller.snapshot();
        Self {
            reordering_threshold: config.packet_threshold(),
            initial_rtt: config.initial_rtt(),
            max_datagram_size,
            initial_congestion_window: Some(snapshot.window),
            minimum_congestion_window: Some(snapshot.minimum_window),
            congestion_controller: Some(controller.name().to_owned()),
            ..Self::default()
        }
    }

    pub(super) fn write(&self, json: &mut Object<'_>) {
        json.number("reordering_threshold", self.reordering_threshold);
        json.float("time_threshold", self.time_threshold);
        json.milliseconds("timer_granularity", self.timer_granularity);
        json.milliseconds("initial_rtt", self.initial_rtt);
        json.number("max_datagram_size", self.max_datagram_size);
        if let Some(window) = self.initial_congestion_window {
            json.number("initial_congestion_window", window);
        }
        if let Some(window) = self.minimum_congestion_window {
            json.number("minimum_congestion_window", window);
        }
        if let Some(factor) = self.loss_reduction_factor {
            json.float("loss_reduction_factor", factor);
        }
        json.number("persistent_congestion_threshold", self.persistent_congestion_threshold);
        if let Some(name) = &self.congestion_controller {
            json.text("congestion_controller", name);
        }
    }
}
