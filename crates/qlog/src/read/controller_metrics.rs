//! The internal variables of a congestion controller, from events in the namespace `clearway`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use super::number::Decimal;

/// An internal variable of a congestion controller, by its name in the controller's specification.
#[derive(Clone, PartialEq, Debug)]
pub struct Metric {
    /// The name in lower case.
    pub name: Box<str>,
    /// The unit of `value`.
    pub unit: MetricUnit,
    /// The value. `None` if the variable no longer exists.
    pub value: Option<f64>,
}

/// The units of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MetricUnit {
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Bits per second.
    BitsPerSecond,
}

type Named<'a> = BTreeMap<Cow<'a, str>, Option<Decimal>>;

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct ControllerData<'a> {
    #[serde(borrow)]
    bytes: Named<'a>,
    #[serde(borrow)]
    milliseconds: Named<'a>,
    #[serde(borrow)]
    bits_per_second: Named<'a>,
}

impl ControllerData<'_> {
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let units = [
            (MetricUnit::Bytes, &self.bytes),
            (MetricUnit::Milliseconds, &self.milliseconds),
            (MetricUnit::BitsPerSecond, &self.bits_per_second),
        ];
        let metrics = units.into_iter().flat_map(|(unit, metrics)| {
            metrics.iter().map(move |(name, value)| Metric {
                name: name.as_ref().into(),
                unit,
                value: value.map(|value| value.0),
            })
        });
        metrics.collect()
    }
}
