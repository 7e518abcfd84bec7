use core::fmt;

use crate::checker::Property;

/// The unit of a measured value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A fraction of a whole, where 1 is the whole.
    Share,
    /// A number without a unit, from 0 to 1.
    Index,
    /// A factor.
    Times,
    /// Bytes, expressed as a number of full-sized datagrams.
    Datagrams,
}

impl Unit {
    /// Returns the unit's name in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Share => "share",
            Self::Index => "index",
            Self::Times => "times",
            Self::Datagrams => "datagrams",
        }
    }

    /// Formats `value` for people.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Share => format!("{:.1} %", value * 100.0),
            Self::Index => format!("{value:.3}"),
            Self::Times => format!("{value:.2}"),
            Self::Datagrams => format!("{value:.1} dg"),
        }
    }
}

/// The permitted range of a measured value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bound {
    /// The minimum.
    pub at_least: Option<f64>,
    /// The maximum.
    pub at_most: Option<f64>,
    /// The unit of the limits.
    pub unit: Unit,
}

impl Bound {
    /// Requires at least `limit`.
    pub const fn at_least(limit: f64, unit: Unit) -> Self {
        Self { at_least: Some(limit), at_most: None, unit }
    }

    /// Requires at most `limit`.
    pub const fn at_most(limit: f64, unit: Unit) -> Self {
        Self { at_least: None, at_most: Some(limit), unit }
    }

    /// Returns whether `value` is within the limits.
    pub fn admits(&self, value: f64) -> bool {
        self.at_least.is_none_or(|least| value >= least)
            && self.at_most.is_none_or(|most| value <= most)
    }

    /// Returns by how much `value` is outside the range; negative if it is inside. Of two values,
    /// the worse one has the larger excess.
    fn excess(&self, value: f64) -> f64 {
        let below = self.at_least.map_or(f64::NEG_INFINITY, |least| least - value);
        let above = self.at_most.map_or(f64::NEG_INFINITY, |most| value - most);
        below.max(above)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value| self.unit.text(value);
        match (self.at_least, self.at_most) {
            (Some(least), Some(most)) => {
                write!(formatter, "{} to {}", text(least), text(most))
            }
            (Some(least), None) => write!(formatter, "at least {}", text(least)),
            (None, Some(most)) => write!(formatter, "at most {}", text(most)),
            (None, None) => formatter.write_str("none"),
        }
    }
}

/// A measured value, compared with its bound.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The property that was checked.
    pub property: Property,
    /// The measured value; `None` if it cannot be measured, for example because a run did not finish.
    pub figure: Option<f64>,
    /// The permitted range.
    pub bound: Bound,
    /// A description of the underlying measurements.
    pub details: String,
}

impl Verdict {
    /// Returns the worst of several verdicts on one property, with the median added to its details.
    /// `None` if there are no verdicts.
    pub(super) fn worst(verdicts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut verdicts: Vec<_> = verdicts.into_iter().collect();
        let excess = |it: &Self| it.figure.map_or(f64::INFINITY, |figure| it.bound.excess(figure));
        verdicts.sort_by(|one, other| excess(one).total_cmp(&excess(other)));
        let middle = verdicts.get(verdicts.len() / 2).map(Self::figure_text);
        let count = verdicts.len();
        let mut worst = verdicts.pop()?;
        if let Some(middle) = middle.filter(|_| count > 2) {
            worst.details += &format!("; median of {count} results: {middle}");
        }
        Some(worst)
    }

    /// Returns whether the property held.
    pub fn holds(&self) -> bool {
        self.figure.is_some_and(|figure| self.bound.admits(figure))
    }

    /// Returns the measured value, formatted for people.
    pub fn figure_text(&self) -> String {
        self.figure.map_or_else(|| "none".to_owned(), |figure| self.bound.unit.text(figure))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { property, bound, details, .. } = self;
        let holds = if self.holds() { "holds" } else { "does not hold" };
        let figure = self.figure_text();
        write!(formatter, "{property} {holds}: {figure}; the bound is {bound} ({details})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(figure: Option<f64>, bound: Bound) -> Verdict {
        Verdict { property: Property::M1, figure, bound, details: String::new() }
    }

    #[test]
    fn the_worst_verdict_is_furthest_outside_of_its_bound() {
        let bound = Bound { at_least: Some(0.7), at_most: Some(1.3), unit: Unit::Times };
        let worst = |figures: &[Option<f64>]| {
            let verdicts = figures.iter().map(|figure| verdict(*figure, bound));
            Verdict::worst(verdicts).map(|worst| (worst.figure, worst.holds()))
        };
        assert_eq!(worst(&[Some(1.0), Some(0.75), Some(1.1)]), Some((Some(0.75), true)));
        assert_eq!(worst(&[Some(0.6), Some(1.5)]), Some((Some(1.5), false)));
        assert_eq!(worst(&[Some(0.6), None]), Some((None, false)));
        assert_eq!(worst(&[]), None);
    }

    #[test]
    fn a_verdict_without_a_measured_value_does_not_hold() {
        let logged = Bound { at_least: None, at_most: None, unit: Unit::Index };
        assert!(verdict(Some(7.0), logged).holds());
        assert!(!verdict(None, logged).holds());
    }
}
