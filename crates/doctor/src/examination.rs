//! Results that are collected while the stages are examined one after another.

use std::collections::BTreeMap;

use crate::actions;
use crate::change::{Rise, rise};
use crate::floor::Traffic;
use crate::span::{Span, Table};
use crate::{Cause, Certainty, Evidence, Finding, Missing, Reading, Snapshot, Stage, Unseen};

/// Maximum number of listed inconsistencies, and of listed parts that could not be read.
const ODDITIES: usize = 32;
const UNSEEN: usize = 64;

/// The snapshots, and the findings so far.
pub(crate) struct Examination<'a> {
    pub(crate) span: Span<'a>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) unseen: Vec<Unseen>,
    pub(crate) oddities: Vec<String>,
    traffic: Traffic,
    /// Number of inconsistencies beyond the limit, which are not listed.
    omitted: usize,
    /// Parts beyond the limit that could not be read, by stage: their number, and whether any of
    /// them may hide losses.
    unlisted: BTreeMap<Stage, (usize, bool)>,
}

impl<'a> Examination<'a> {
    pub(crate) fn new(span: Span<'a>, oddities: Vec<String>) -> Self {
        let (findings, unseen, traffic) = (Vec::new(), Vec::new(), Traffic::of(&span));
        let unlisted = BTreeMap::new();
        Self { span, findings, unseen, oddities, traffic, omitted: 0, unlisted }
    }

    /// Records a counter reading that contradicts another one.
    pub(crate) fn odd(&mut self, text: String) {
        if self.oddities.contains(&text) {
            return;
        }
        match self.oddities.len() < ODDITIES {
            true => self.oddities.push(text),
            false => self.omitted = self.omitted.saturating_add(1),
        }
    }

    /// Returns all listed inconsistencies, and the number of those that were omitted.
    pub(crate) fn take_oddities(&mut self) -> Vec<String> {
        let mut oddities = std::mem::take(&mut self.oddities);
        if self.omitted > 0 {
            oddities.push(format!("{} more of the same kind", self.omitted));
        }
        oddities
    }

    /// Records a part of `stage` that could not be read. It cannot hide losses; it would only have
    /// added detail.
    pub(crate) fn unseen(&mut self, stage: Stage, why: String, needed: Option<String>) {
        self.note(Unseen { stage, why, needed, may_hide_loss: false });
    }

    fn note(&mut self, unseen: Unseen) {
        if self.unseen.contains(&unseen) {
            return;
        }
        if self.unseen.len() < UNSEEN {
            self.unseen.push(unseen);
            return;
        }
        // Parts that may hide losses take precedence over those that would only have added detail.
        let explanation = self.unseen.iter_mut().find(|it| !it.may_hide_loss);
        let left_out = match explanation.filter(|_| unseen.may_hide_loss) {
            Some(place) => std::mem::replace(place, unseen),
            None => unseen,
        };
        let (count, may_hide_loss) = self.unlisted.entry(left_out.stage).or_default();
        *count = count.saturating_add(1);
        *may_hide_loss |= left_out.may_hide_loss;
    }

    /// Returns all parts that could not be read, in the order of their stages, and the number of
    /// omitted ones for each stage.
    pub(crate) fn take_unseen(&mut self) -> Vec<Unseen> {
        let mut all = std::mem::take(&mut self.unseen);
        for (stage, (count, may_hide_loss)) in std::mem::take(&mut self.unlisted) {
            let why = format!("{count} more of the same kind");
            all.push(Unseen { stage, why, needed: None, may_hide_loss });
        }
        all.sort_by_key(|it| it.stage);
        all
    }

    /// Records a part of `stage` that could not be read and may hide losses.
    pub(crate) fn blind(&mut self, stage: Stage, why: String, needed: Option<String>) {
        self.note(Unseen { stage, why, needed, may_hide_loss: true });
    }

    /// Like [`blind`](Self::blind), for a known number of packets that may have been lost: if there
    /// are too few, they do not affect the verdict.
    pub(crate) fn blind_to(
        &mut self,
        packets: u64,
        stage: Stage,
        why: String,
        needed: Option<String>,
    ) {
        match self.traffic.is_little(stage, packets) {
            true => self.unseen(stage, why, needed),
            false => self.blind(stage, why, needed),
        }
    }

    /// Returns whether `part` was read in the first and the last snapshot. If not, records that
    /// `stage` was not seen and may hide losses.
    pub(crate) fn needs<T>(
        &mut self,
        stage: Stage,
        part: &str,
        get: impl Fn(&'a Snapshot) -> &'a Reading<T>,
    ) -> bool
    where
        T: 'a,
    {
        let ends = [self.span.snapshots.first(), self.span.snapshots.last()];
        let missing = ends.into_iter().flatten().find_map(|it| match get(it) {
            Reading::Missing(missing) => Some(missing),
            Reading::Seen(_) => None,
        });
        if let Some(missing) = missing {
            let (why, needed) = explain(part, missing);
            self.blind(stage, why, needed);
        }
        missing.is_none()
    }

    /// Returns the rise of a counter, as far as it is known. A counter that decreased is recorded
    /// as an inconsistency; one that was not read in the first and the last snapshot may hide
    /// losses.
    pub(crate) fn rise_of(
        &mut self,
        stage: Stage,
        label: &str,
        readings: &[Option<u64>],
    ) -> Option<u64> {
        let rise = self.known_rise(label, readings)?;
        if !rise.is_complete && !rise.went_back {
            self.blind(stage, format!("{label} was not present in all snapshots"), None);
        }
        Some(rise.total)
    }

    /// Like [`rise_of`](Self::rise_of), for a counter of an object that may appear or disappear:
    /// the caller handles that case.
    pub(crate) fn known_rise(&mut self, label: &str, readings: &[Option<u64>]) -> Option<Rise> {
        if !readings.iter().any(Option::is_some) {
            return None;
        }
        let found = rise(readings).unwrap_or_default();
        if found.went_back {
            self.odd(format!(
                "the counter \"{label}\" went backwards: it was reset, or now belongs to another \
                object"
            ));
        }
        Some(found)
    }

    /// Returns the rise of a protocol counter; `None` if this kernel does not have it.
    pub(crate) fn counter(&mut self, stage: Stage, table: Table, name: &str) -> Option<u64> {
        let readings = self.span.protocol(table, name);
        self.rise_of(stage, &table.label(name), &readings)
    }

    /// Like [`counter`](Self::counter), for a counter that every kernel provides. If it is missing,
    /// losses may be hidden, which is recorded.
    pub(crate) fn needed_counter(&mut self, stage: Stage, table: Table, name: &str) -> u64 {
        let rise = self.counter(stage, table, name);
        if rise.is_none() && self.span.snapshots.iter().any(|it| it.protocols.seen().is_some()) {
            self.blind(stage, format!("{} is missing", table.label(name)), None);
        }
        rise.unwrap_or(0)
    }

    /// Records a finding for `stage` if packets were lost there.
    pub(crate) fn find(
        &mut self,
        stage: Stage,
        cause: Cause,
        lost: u64,
        certainty: Certainty,
        evidence: Vec<Evidence>,
    ) {
        if lost == 0 {
            return;
        }
        let per_second = match self.span.seconds > 0.0 {
            true => lost as f64 / self.span.seconds,
            false => 0.0,
        };
        let evidence: Vec<_> = evidence.into_iter().filter(|it| it.rise > 0).collect();
        let actions = actions::actions(stage, &cause, &evidence);
        let consequence_of = None;
        let finding = Finding {
            stage,
            cause,
            consequence_of,
            lost,
            per_second,
            share: None,
            is_above_floor: false,
            certainty,
            evidence,
            actions,
        };
        self.findings.push(finding);
    }

    /// Returns the drops with this kernel drop reason as evidence, if they were counted.
    pub(crate) fn reason(&self, name: &str) -> Option<Evidence> {
        let rise = self.span.reason(name)?;
        Some(evidence(format!("packets dropped on the entire host for reason {name}"), rise))
    }
}

pub(crate) fn evidence(counter: impl Into<String>, rise: u64) -> Evidence {
    Evidence { counter: counter.into(), rise }
}

/// Returns `Certain` if `is_certain`, otherwise `Possible`.
pub(crate) fn certain_if(is_certain: bool) -> Certainty {
    if is_certain { Certainty::Certain } else { Certainty::Possible }
}

/// Explains why `part` was not seen, and which privilege or namespace would make it visible.
pub(crate) fn explain(part: &str, missing: &Missing) -> (String, Option<String>) {
    match missing {
        Missing::Right(right) => (format!("{part}: missing permission"), Some(right.clone())),
        Missing::Sandbox(what) => (
            format!("{part}: not permitted here (a sandbox?)"),
            Some(format!(
                "{what}: allow it with RestrictAddressFamilies in a systemd unit, or in the \
                 container's seccomp profile"
            )),
        ),
        Missing::Namespace => (
            format!("{part}: not visible from this network namespace or container"),
            Some("to run in the host's network namespace".to_owned()),
        ),
        Missing::Kernel => (format!("{part}: not supported by this kernel"), None),
        Missing::Malformed(text) => (format!("{part}: cannot be parsed: {text}"), None),
        Missing::Failed(error) => (format!("{part}: cannot be read: {error}"), None),
        Missing::NotAsked => (format!("{part}: not collected"), None),
    }
}
