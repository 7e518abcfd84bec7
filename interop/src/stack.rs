//! The stacks, their roles and their congestion controllers.

use std::fmt;

/// A QUIC implementation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stack {
    Clearway,
    Quinn,
    TokioQuiche,
    S2nQuic,
    QuicGo,
    Aioquic,
}

impl Stack {
    pub(crate) const ALL: [Self; 6] = [
        Self::Clearway,
        Self::Quinn,
        Self::TokioQuiche,
        Self::S2nQuic,
        Self::QuicGo,
        Self::Aioquic,
    ];

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

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stack| stack.name() == name)
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Clearway's congestion controller in a cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Controller {
    Reno,
    Cubic,
    Bbr,
}

impl Controller {
    pub(crate) const ALL: [Self; 3] = [Self::Reno, Self::Cubic, Self::Bbr];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| controller.name() == name)
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
