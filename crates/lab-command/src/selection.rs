//! The selection of controllers and variants.

use std::str::FromStr;

use clap::Args;
use clearway_congestion::Algorithm;

/// The options that select which controllers and variants of a scenario are run.
#[derive(Args, Debug)]
pub(super) struct Selection {
    /// Run only these congestion controllers, separated by commas.
    ///
    /// The value all selects all controllers that the scenario lists.
    #[arg(long = "controller", value_name = "NAMES", default_value = "all")]
    controllers: Controllers,
    /// Run only this variant; base is the scenario itself. May be repeated.
    #[arg(long = "variant", value_name = "NAME")]
    variants: Vec<String>,
}

/// The controllers to run: those of the scenario or comparison, or the ones that the user selected.
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
    /// Returns whether the controller with this name is selected.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(these) => these.iter().any(|algorithm| algorithm.name() == name),
        }
    }
}

impl Selection {
    /// Returns the controllers that the user selected.
    pub(super) fn selected_controllers(&self) -> &Controllers {
        &self.controllers
    }

    /// Returns the controllers to run for a scenario that lists `own`.
    pub(super) fn controllers(&self, own: &[String]) -> Vec<Algorithm> {
        match &self.controllers {
            // A controller that this program does not have is skipped.
            Controllers::All => own.iter().filter_map(|name| name.parse().ok()).collect(),
            Controllers::These(these) => these.clone(),
        }
    }

    /// Returns whether the variant with this name is selected.
    pub(super) fn has_variant(&self, name: &str) -> bool {
        self.variants.is_empty() || self.variants.iter().any(|variant| variant == name)
    }

    /// Returns the names of the variants that the user selected.
    pub(super) fn variants(&self) -> &[String] {
        &self.variants
    }
}

#[cfg(test)]
impl Selection {
    /// Returns the selection that these arguments describe.
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
