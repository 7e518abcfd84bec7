//! The doctor inside a server, which examines the server's own sockets every few seconds, for the
//! metrics and the log.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use clearway_doctor::{
    Application, Collector, Finding, Outcome, Reading, Scope, Snapshot, Verdict, diagnose_for,
};
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::causes;
use super::collecting::with_drivers;
use crate::failure::Failure;
use crate::output;

/// Interval between verdicts.
const INTERVAL: Duration = Duration::from_secs(5);
/// Shorter interval between the additional snapshots that are taken after a socket has dropped
/// datagrams.
const CLOSE_INTERVAL: Duration = Duration::from_millis(100);
const CLOSE_COUNT: usize = 20;

/// Name under which the doctor shows this program's own counters.
const NAME: &str = "clearway";

/// The doctor's latest verdict, for metrics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried(Arc<Share>);

/// State shared by the examining thread and the readers.
#[derive(Debug, Default)]
struct Share(ArcSwapOption<Verdict>);

impl Carried {
    /// Examines the server and prints changes in the verdict until the returned value is dropped.
    /// `application` returns this program's own counters.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start a thread.
    pub(crate) fn start(
        application: impl Fn() -> Application + Send + 'static,
    ) -> Result<Self, Failure> {
        let share = Arc::new(Share::default());
        let of_thread = Arc::downgrade(&share);
        thread::Builder::new()
            .name("clearway-doctor".to_owned())
            .spawn(move || look(&of_thread, application))
            .map_err(|error| Failure::new(format!("cannot start a thread: {error}")))?;
        Ok(Self(share))
    }
}

fn look(share: &Weak<Share>, application: impl Fn() -> Application + Send + 'static) {
    let own = std::process::id();
    let collector = with_drivers(Collector::of_process(own));
    let mut collector = collector.with_applications(move || {
        let application = Application { process: own, ..application() };
        Reading::Seen(BTreeMap::from([(NAME.to_owned(), application)]))
    });
    // Losses of other processes in the namespace must not raise an alarm in this server.
    let scope = Scope::Own { process: own };
    let mut snapshots = vec![collector.collect()];
    let mut said = None;
    loop {
        thread::sleep(INTERVAL);
        snapshots.push(collector.collect());
        if dropped(&snapshots) {
            for _ in 0..CLOSE_COUNT {
                thread::sleep(CLOSE_INTERVAL);
                snapshots.push(collector.collect());
            }
        }
        let verdict = diagnose_for(&snapshots, scope);
        let Some(share) = share.upgrade() else { return };
        if let Some(line) = news(&mut said, &verdict) {
            output::status(&line);
        }
        share.0.store(Some(Arc::new(verdict)));
        snapshots.drain(..snapshots.len() - 1);
    }
}

/// Returns whether a socket dropped anything between the first and the last snapshot.
fn dropped(snapshots: &[Snapshot]) -> bool {
    let drops = |snapshot: Option<&Snapshot>| -> u64 {
        let sockets = snapshot.and_then(|snapshot| snapshot.sockets.seen());
        sockets.into_iter().flat_map(BTreeMap::values).map(|socket| socket.drops).sum()
    };
    drops(snapshots.last()) > drops(snapshots.first())
}

/// Returns the text to print about a verdict, if the verdict differs from the previous one.
fn news(said: &mut Option<Vec<String>>, verdict: &Verdict) -> Option<String> {
    let now = (verdict.outcome == Outcome::Loss).then(|| {
        causes(verdict).iter().map(|(stage, cause)| format!("{stage:?} {cause}")).collect()
    });
    if now == *said {
        return None;
    }
    *said = now;
    Some(match verdict.outcome {
        Outcome::Loss => format!("doctor: {}", verdict.headline()),
        _ => "doctor: losses have stopped".to_owned(),
    })
}

impl prometheus_client::collector::Collector for Carried {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode(self.0.0.load().as_deref(), &mut encoder)
    }
}

fn encode(verdict: Option<&Verdict>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let outcome = verdict.map_or(Outcome::Unknown, |verdict| verdict.outcome);
    let help = "1 for the doctor's current verdict on this program's own sockets, 0 for the other verdicts.";
    let mut metric = encoder.encode_descriptor("verdict", help, None, MetricType::Gauge)?;
    // Packets to ports without a socket are not this program's, so no other outcomes are possible.
    for (it, text) in
        [(Outcome::NoLoss, "no_loss"), (Outcome::Loss, "loss"), (Outcome::Unknown, "unknown")]
    {
        metric.encode_family(&[("outcome", text)])?.encode_gauge(&u32::from(it == outcome))?;
    }
    let own = verdict.map_or(&[][..], |it| &it.findings);
    let help = "Packets that this program loses per second, by stage and cause.";
    encode_rates(own, ("lost_per_second", help), encoder)?;
    let elsewhere = verdict.map_or(&[][..], |it| &it.elsewhere);
    let help = "Packets lost per second in this network namespace, except by this program.";
    encode_rates(elsewhere, ("elsewhere_lost_per_second", help), encoder)
}

fn encode_rates(
    findings: &[Finding],
    (name, help): (&str, &str),
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    let mut rates = BTreeMap::new();
    for finding in findings {
        let stage = format!("{}{}", direction(finding.stage), finding.stage.title().to_lowercase());
        *rates.entry((stage.replace(' ', "_"), finding.cause.name())).or_insert(0.0) +=
            finding.per_second;
    }
    for ((stage, cause), rate) in &rates {
        let labels = [("stage", &stage[..]), ("cause", cause)];
        metric.encode_family(&labels)?.encode_gauge(rate)?;
    }
    Ok(())
}

fn direction(stage: clearway_doctor::Stage) -> &'static str {
    if stage.is_of_sending() { "send_" } else { "" }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode as text_of;
    use prometheus_client::registry::Registry;

    use super::super::tests::slow;
    use super::*;

    fn metrics(verdict: Option<Verdict>) -> String {
        let share = Share::default();
        share.0.store(verdict.map(Arc::new));
        let mut registry = Registry::with_prefix("clearway");
        let carried = Box::new(Carried(Arc::new(share)));
        registry.sub_registry_with_prefix("doctor").register_collector(carried);
        let mut text = String::new();
        text_of(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn the_verdict_is_a_metric() {
        let none = metrics(None);
        assert!(none.contains("clearway_doctor_verdict{outcome=\"unknown\"} 1\n"), "{none}");
        let loss = metrics(Some(slow(7, 4433)));
        assert!(loss.contains("clearway_doctor_verdict{outcome=\"loss\"} 1\n"), "{loss}");
        assert!(loss.contains("clearway_doctor_verdict{outcome=\"unknown\"} 0\n"), "{loss}");
        let rate = "clearway_doctor_lost_per_second{stage=\"socket\",cause=\"rate\"} 1000";
        assert!(loss.contains(rate), "{loss}");
        let mut other = slow(7, 4433);
        other.outcome = Outcome::NoLoss;
        other.elsewhere.append(&mut other.findings);
        let other = metrics(Some(other));
        assert!(other.contains("clearway_doctor_verdict{outcome=\"no_loss\"} 1\n"), "{other}");
        let rate =
            "clearway_doctor_elsewhere_lost_per_second{stage=\"socket\",cause=\"rate\"} 1000";
        assert!(other.contains(rate) && !other.contains("doctor_lost_per_second{"), "{other}");
    }

    #[test]
    fn a_line_is_printed_when_the_verdict_changes_and_not_again() {
        let mut said = None;
        let mut fine = slow(7, 4433);
        fine.outcome = Outcome::NoLoss;
        fine.findings.clear();
        assert_eq!(news(&mut said, &fine), None);
        assert!(news(&mut said, &slow(7, 4433)).unwrap().starts_with("doctor: Loss"));
        assert_eq!(news(&mut said, &slow(7, 4433)), None);
        assert!(news(&mut said, &fine).unwrap().contains("losses have stopped"));
        assert_eq!(news(&mut said, &fine), None);
    }
}
