use core::fmt;
use core::str::FromStr;

use crate::{Bbr, Controller, ControllerFactory, ControllerParameters, Cubic, Reno};

/// The controllers of this crate, selectable by name at run time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Algorithm {
    /// NewReno as in RFC 9002 §7.
    Reno,
    /// CUBIC as in RFC 9438, the default.
    #[default]
    Cubic,
    /// BBR version 3 as in draft-ietf-ccwg-bbr-06.
    Bbr,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 3] = [Self::Reno, Self::Cubic, Self::Bbr];

    /// Returns the name that selects the algorithm.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

impl ControllerFactory for Algorithm {
    fn build(&self, parameters: &ControllerParameters) -> Box<dyn Controller> {
        match self {
            Self::Reno => Box::new(Reno::new(parameters)),
            Self::Cubic => Box::new(Cubic::new(parameters)),
            Self::Bbr => Box::new(Bbr::new(parameters)),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that does not match any controller.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct UnknownAlgorithm(String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown congestion controller {:?}; choose one of:", self.0)?;
        Algorithm::ALL.into_iter().try_for_each(|algorithm| write!(f, " {algorithm}"))
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
            .ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

#[cfg(test)]
#[path = "algorithm_tests.rs"]
mod tests;
