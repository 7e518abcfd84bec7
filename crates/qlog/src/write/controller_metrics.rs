use clearway_congestion::{Controller, Metric, Quantity};
use clearway_units::Timestamp;

use super::json::Object;
use super::records::Records;

/// The congestion controller's internal variables, as last written. Only variables that have
/// changed are written again.
#[derive(Default, Debug)]
pub(super) struct ControllerMetricsLog {
    last: Vec<Metric>,
    /// The current variables. Kept to reuse the allocation.
    new: Vec<Metric>,
}

/// The field names of the event: one field for the variables of each unit.
const UNITS: [&str; 3] = ["bytes", "milliseconds", "bits_per_second"];

const fn unit(quantity: &Quantity) -> &'static str {
    match quantity {
        Quantity::Bytes(_) => "bytes",
        Quantity::Time(_) => "milliseconds",
        Quantity::Rate(_) => "bits_per_second",
    }
}

impl ControllerMetricsLog {
    pub(super) fn update(
        &mut self,
        records: &mut Records,
        now: Timestamp,
        controller: &dyn Controller,
    ) {
        self.new.clear();
        controller.metrics(&mut |metric| self.new.push(metric));
        if self.new != self.last {
            records.event(now, "clearway:controller_updated", |json| self.write(json));
            core::mem::swap(&mut self.last, &mut self.new);
        }
    }

    fn write(&self, json: &mut Object<'_>) {
        for name in UNITS {
            let of_unit = |metric: &&Metric| unit(&metric.quantity) == name;
            let changed = || {
                let new = self.new.iter().filter(of_unit);
                new.filter(|metric| !self.last.contains(metric))
            };
            let is_gone = |gone: &&Metric| self.new.iter().all(|metric| metric.name != gone.name);
            let gone = || self.last.iter().filter(of_unit).filter(is_gone);
            if changed().next().is_none() && gone().next().is_none() {
                continue;
            }
            json.object(name, |json| {
                for Metric { name, quantity } in changed() {
                    match *quantity {
                        Quantity::Bytes(bytes) => json.number(name, bytes),
                        Quantity::Time(time) => json.milliseconds(name, time),
                        Quantity::Rate(rate) => json.number(name, rate.bits_per_second()),
                    }
                }
                for metric in gone() {
                    json.null(metric.name);
                }
            });
        }
    }
}

#[cfg(test)]
#[path = "controller_metrics_tests.rs"]
mod tests;
