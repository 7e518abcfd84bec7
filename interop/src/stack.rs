//! The stacks, with their roles and congestion controllers.

use std::fmt;

/// A QUIC implementation.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stack {
    Clearway,
    Quinn,
    TokioQuiche,
    S2nQuic,
    QuicGo,
    Aioquic,
}

impl Stack {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clearway => "clearway",
            Self::Quinn => "quinn",
            Self::TokioQuiche => "tokio-quiche",
            Self::S2nQuic => "s2n-quic",
            Self::QuicGo => "quic-go",
            Self::Aioquic => "aioquic",
        }
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Clearway's congestion controller in a cell.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Controller {
    Reno,
    Cubic,
    Bbr,
}

impl Controller {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
