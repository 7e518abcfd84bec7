//! The comparisons that Clearway's controllers must pass: every property that spans runs, for each
//! controller to which it applies, in the smallest networks that can reveal a violation.

mod networks;

use core::time::Duration;

use clearway_congestion::Algorithm;

use super::round_trip_range::{Habit, ROUND_TRIPS};
use super::{
    Comparison, Inapplicable, Subject, acknowledgement_aggregation, batches, datagram_size,
    deleted_losses, fairness, idle_time, jitter, round_trip_range, start_order, time_scale,
};
use crate::run::Candidate;
use crate::setup::{Setup, Traffic};
use networks::{Bottleneck, SETTLED, bottleneck, download, flow, ms, one_loss, random_loss, wire};

/// The controllers whose congestion window depends only on acknowledgments and losses.
const LOSS_BASED: [Algorithm; 2] = [Algorithm::Reno, Algorithm::Cubic];

/// Returns all comparisons, ordered by property, each with `seeds` seeds or, by default, as many as
/// it needs.
pub fn standard(seeds: Option<u64>) -> Vec<Comparison> {
    let mut set = Set { seeds, comparisons: Vec::new() };
    set.scaling();
    set.acknowledgements();
    set.batches();
    set.idleness();
    set.round_trips();
    set.losses();
    set.order();
    set.fairness();
    set.comparisons.sort_by_key(|comparison| comparison.property);
    set.comparisons
}

struct Set {
    seeds: Option<u64>,
    comparisons: Vec<Comparison>,
}

impl Set {
    /// Adds the comparison that `compare` creates from `setup` for each of `algorithms`, unless it
    /// does not apply.
    fn add(
        &mut self,
        place: &str,
        algorithms: &[Algorithm],
        (setup, seeds): (&Setup, u64),
        compare: impl Fn(Subject<'_>) -> Result<Comparison, Inapplicable>,
    ) {
        for algorithm in algorithms {
            let candidate = Candidate::from(*algorithm);
            let seeds = self.seeds.unwrap_or(seeds);
            let compared = compare(Subject { setup, candidate: &candidate, seeds });
            self.comparisons.extend(compared.map(|comparison| comparison.on(place)));
        }
    }

    /// Adds M1 and M2. BBR is excluded from M1, because most of its behavior depends on constants
    /// in seconds.
    fn scaling(&mut self) {
        let setup = one_loss(bottleneck(ms(40), 20, download(1_000_000)), 60);
        let place = "40 ms, 20 datagrams, a loss";
        self.add(place, &LOSS_BASED, (&setup, 1), |it| time_scale::comparison(it, 3));
        self.add(place, &Algorithm::ALL, (&setup, 1), |it| datagram_size::comparison(it, 4));
    }

    /// Adds M4, in a network where datagrams that arrive within the same millisecond (the timer
    /// granularity) are delivered together. A sample cannot be more accurate than the fraction of a
    /// round trip's data that arrives at once, here six datagrams of 240.
    fn batches(&mut self) {
        let mut setup = bottleneck(ms(40), 240, download(16_000_000));
        for conditions in [&mut setup.network.to_server, &mut setup.network.to_client] {
            conditions.tick = Some(ms(1));
        }
        self.add("40 ms, 240 datagrams", &Algorithm::ALL, (&setup, 1), batches::comparison);
    }

    /// Adds M3: a loss in the second flight on a path of 10 ms leads to windows of about 15
    /// datagrams, for which CUBIC behaves like Reno.
    fn acknowledgements(&mut self) {
        let setup = one_loss(wire(ms(10), download(2_000_000)), 20);
        self.add("10 ms, a loss", &LOSS_BASED, (&setup, 1), |it| {
            acknowledgement_aggregation::comparison(it, 20.0)
        });
    }

    /// Adds M5: requests with idle time between them, after an early loss.
    fn idleness(&mut self) {
        let every = Some(Duration::from_secs(2));
        let traffic = Traffic::Requests { count: 2, size: 500_000, every };
        let setup = one_loss(wire(ms(20), traffic), 60);
        let idles = [ms(100), Duration::from_secs(10), Duration::from_secs(3600)];
        self.add("20 ms, a loss", &LOSS_BASED, (&setup, 1), |it| idle_time::comparison(it, &idles));
    }

    /// Adds M6: a path with a bandwidth-delay product of 30 datagrams, and a transfer of 150 times
    /// that amount.
    fn round_trips(&mut self) {
        const PATH: u64 = 30 * 1200;
        let setup = wire(Duration::ZERO, download(150 * PATH));
        let (short, long) = ROUND_TRIPS.split_at(ROUND_TRIPS.partition_point(|it| *it <= ms(200)));
        for round_trips in [short, long] {
            let place = "30 datagrams";
            self.add(place, &LOSS_BASED, (&setup, 1), |it| {
                round_trip_range::comparison(it, PATH, round_trips, Habit::Sends)
            });
            self.add(place, &[Algorithm::Bbr], (&setup, 1), |it| {
                round_trip_range::comparison(it, PATH, round_trips, Habit::Probes)
            });
        }
    }

    /// Adds M7 and M8. M8 uses a shorter version of the published collapse of CUBIC's congestion
    /// window (`scenarios/collapse.toml`): 30 % loss for half a second.
    fn losses(&mut self) {
        let setup = random_loss(wire(ms(20), download(1_000_000)), 0.02, None);
        let ends = [ms(0), ms(100), ms(300), ms(1000)];
        self.add("20 ms, 2 % loss", &Algorithm::ALL, (&setup, 10), |it| {
            deleted_losses::comparison(it, &ends)
        });
        let setup = random_loss(wire(ms(10), download(500_000)), 0.3, Some(ms(500)));
        self.add("10 ms, 30 % loss", &Algorithm::ALL, (&setup, 101), |it| {
            Ok(jitter::comparison(it))
        });
    }

    /// Adds M9: two identical flows sharing a bottleneck.
    fn order(&mut self) {
        let mut setup = bottleneck(ms(20), 30, download(1_000_000));
        setup.flows.push(flow(1, download(1_000_000)));
        self.add("20 ms, 30 datagrams", &Algorithm::ALL, (&setup, 5), |it| {
            start_order::comparison(it, ms(100))
        });
    }

    /// Adds Fa to Fd: flows that share a bottleneck.
    fn fairness(&mut self) {
        for (count, megabits) in [(2, 4), (8, 20), (32, 60)] {
            let shared = Bottleneck { megabits, round_trip: ms(40), queue: 1.0 };
            let setup = shared.shared_by(&vec![None; count]);
            let place = format!("{megabits} Mbit/s, 40 ms");
            self.add(&place, &Algorithm::ALL, (&setup, 4), |it| {
                Ok(fairness::equal::comparison(it, SETTLED))
            });
        }
        // The windows are large, so CUBIC's curve is above Reno's window.
        let shared = Bottleneck { megabits: 50, round_trip: ms(40), queue: 2.0 };
        let setup = shared.shared_by(&[None; 2]);
        for algorithm in Algorithm::ALL {
            let is_logged = algorithm != Algorithm::Cubic;
            self.add("50 Mbit/s, 2 paths", &[algorithm], (&setup, 2), |it| {
                fairness::round_trips::comparison(it, SETTLED, ms(120), is_logged)
            });
        }
        // Windows of 20 to 80 datagrams: Reno recovers such a window in less than a second, whereas
        // CUBIC's curve takes seconds. The result for windows of 4 to 8 datagrams is only logged,
        // because RFC 9438's factor is derived for windows that are large compared with a datagram.
        for megabits in [4, 10, 20] {
            let shared = Bottleneck { megabits, round_trip: ms(20), queue: 1.0 };
            let setup = shared.shared_by(&[Some("cubic"), Some("reno")]);
            let place = format!("{megabits} Mbit/s, 20 ms");
            self.add(&place, &[Algorithm::Cubic], (&setup, 8), |it| {
                fairness::reno_friendly::comparison(it, SETTLED, megabits == 4)
            });
        }
        for queue in [0.5, 1.0, 2.0, 4.0, 8.0] {
            let shared = Bottleneck { megabits: 20, round_trip: ms(40), queue };
            let setup = shared.shared_by(&[Some("bbr"), Some("cubic")]);
            let place = format!("20 Mbit/s, {queue} paths");
            self.add(&place, &[Algorithm::Bbr], (&setup, 4), |it| {
                fairness::starvation::comparison(it, SETTLED)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::standard;
    use crate::checker::{Place, Property};
    use crate::run::validate;

    #[test]
    fn every_property_across_runs_has_a_comparison() {
        let set = standard(None);
        for property in Property::ALL {
            let is_asked = set.iter().any(|comparison| comparison.property == property);
            assert_eq!(is_asked, property.place() == Place::Across, "{property}");
        }
    }

    #[test]
    fn comparisons_can_be_run_and_have_unique_names() {
        let set = standard(Some(3));
        let mut names: Vec<_> =
            set.iter().map(|it| (it.property, &it.controllers, &it.compared)).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), set.len());
        for comparison in &set {
            for job in comparison.jobs() {
                assert_eq!(validate(job.setup, job.candidate), Ok(()));
                assert!(job.count() == 3 || job.count() == 1, "{comparison:?}");
            }
        }
    }
}
