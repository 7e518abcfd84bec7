//! Which controllers and variants.

use std::str::FromStr;

use clap::Args;
use clearway::congestion::Algorithm;

/// Which of a scenario's controllers and variants are run.
#[derive(Args, Debug)]
pub(super) struct Selection {
    /// Only these congestion controllers, separated by commas; all: those that the scenario names.
    #[arg(long = "controller", value_name = "NAMES", default_value = "all")]
    controllers: Controllers,
    /// Only the variant of this name; base is the scenario itself. May be given several times.
    #[arg(long = "variant", value_name = "NAME")]
    variants: Vec<String>,
}

/// Those of a scenario or of a comparison, or others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Controllers {
    All,
    These(Vec<Algorithm>),
}

impl FromStr for Controllers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            list => {
                let parse = |name: &str| name.trim().parse::<Algorithm>();
                let these: Result<Vec<_>, _> = list.split(',').map(parse).collect();
                these.map(Self::These).map_err(|error| format!("{error}, or all"))
            }
        }
    }
}

impl Controllers {
    /// Whether the one of this name is meant.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => these.iter().any(|algorithm| algorithm.name() == name),
        }
    }
}

impl Selection {
    /// Those that were asked for.
    pub(super) fn asked(&self) -> &Controllers {
        &self.controllers
    }

    /// The controllers of a scenario that names `own`.
    pub(super) fn controllers(&self, own: &[String]) -> Vec<Algorithm> {
        match &self.controllers {
            // One that this program does not have cannot be run; the others can.
            Controllers::All => own.iter().filter_map(|name| name.parse().ok()).collect(),
            Controllers::These(these) => these.clone(),
        }
    }

    /// Whether the variant of this name is meant.
    pub(super) fn has_variant(&self, name: &str) -> bool {
        self.variants.is_empty() || self.variants.iter().any(|variant| variant == name)
    }

    /// The names of variants that were asked for.
    pub(super) fn variants(&self) -> &[String] {
        &self.variants
    }
}

#[cfg(test)]
impl Selection {
    /// What these arguments select.
    pub(super) fn of(controllers: &str, variants: &[&str]) -> Self {
        let variants = variants.iter().map(|&name| name.to_owned()).collect();
        Self { controllers: controllers.parse().unwrap(), variants }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_by_name() {
        assert_eq!("all".parse(), Ok(Controllers::All));
        let both = Controllers::These(vec![Algorithm::Cubic, Algorithm::Reno]);
        assert!(both.has("reno") && !both.has("bbr") && Controllers::All.has("bbr"));
        assert_eq!("cubic, reno".parse(), Ok(both));
        let error = "cubic,vegas".parse::<Controllers>().unwrap_err();
        assert!(error.contains("vegas") && error.contains("reno") && error.contains("all"));
    }
}
