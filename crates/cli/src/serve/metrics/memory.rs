//! Metrics of the memory used for clients.

use std::fmt;

use clearway::MemoryStatistics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::super::memory::ContentStatistics;

/// Collector that reads the memory budgets' counters when the metrics are requested.
pub(super) struct Memory {
    read: Box<dyn Fn() -> (MemoryStatistics, ContentStatistics) + Send + Sync>,
}

impl Memory {
    pub(super) fn new(
        read: impl Fn() -> (MemoryStatistics, ContentStatistics) + Send + Sync + 'static,
    ) -> Self {
        Self { read: Box::new(read) }
    }
}

#[cfg(test)]
impl Default for Memory {
    fn default() -> Self {
        Self::new(|| (MemoryStatistics::default(), ContentStatistics::default()))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Collector for Memory {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (connections, content) = (self.read)();
        let bytes = [
            ("connections", "Memory held by client connections.", connections.held),
            (
                "connections_limit",
                "Limit on the memory held by client connections.",
                connections.limit,
            ),
            ("content", "Content in memory that clients have not acknowledged.", content.held),
            ("content_limit", "Limit on the content in memory.", content.limit),
        ];
        for (name, help, value) in bytes {
            let kind = MetricType::Gauge;
            encoder
                .encode_descriptor(name, help, Some(&Unit::Bytes), kind)?
                .encode_gauge(&value)?;
        }
        let counts = [
            (
                "windows_limited",
                "Receive windows limited because memory is low.",
                connections.windows_limited,
            ),
            (
                "clients_refused",
                "Clients refused because memory is low.",
                connections.clients_refused,
            ),
            (
                "connections_closed",
                "Connections closed because memory is low.",
                connections.connections_closed,
            ),
            ("responses_reset", "Responses reset because memory is low.", content.resets),
        ];
        for (name, help, value) in counts {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, f64>(&value, None)?;
        }
        Ok(())
    }
}
