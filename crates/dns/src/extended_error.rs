use core::fmt;

use hickory_proto::op::Edns;
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};

/// The EDNS option code of Extended DNS Errors.
pub(crate) const OPTION: u16 = 15;
/// Maximum length of the text sent, in octets.
const MAX_TEXT: usize = 200;

/// The info codes of Extended DNS Errors (RFC 8914 §4) that this crate sends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorInfo {
    /// Other Error (0).
    Other,
    /// Not Ready (14): the server cannot answer yet, or can no longer answer.
    NotReady,
    /// Prohibited (18): the client is not allowed to ask this.
    Prohibited,
    /// Not Supported (21): the operation or the query type is not supported.
    NotSupported,
    /// No Reachable Authority (22): no upstream server responded.
    NoReachableAuthority,
    /// Network Error (23): communication with an upstream server failed.
    NetworkError,
    /// Invalid Data (24): an upstream server's response is unusable.
    InvalidData,
    /// Too Early (26): the operation is not safe in early data (RFC 9250 §10.5).
    TooEarly,
}

impl ErrorInfo {
    /// Returns the info code.
    pub const fn code(self) -> u16 {
        match self {
            Self::Other => 0,
            Self::NotReady => 14,
            Self::Prohibited => 18,
            Self::NotSupported => 21,
            Self::NoReachableAuthority => 22,
            Self::NetworkError => 23,
            Self::InvalidData => 24,
            Self::TooEarly => 26,
        }
    }
}

/// An Extended DNS Error (RFC 8914): the reason for a response code.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ExtendedError {
    /// The info code.
    pub code: u16,
    /// The human-readable text (EXTRA-TEXT); may be empty.
    pub text: String,
}

impl ExtendedError {
    /// Creates an error with a text, which is truncated to 200 octets.
    pub fn new(info: ErrorInfo, text: impl Into<String>) -> Self {
        Self { code: info.code(), text: text.into() }.truncated()
    }

    /// Truncates the text to 200 octets.
    pub(crate) fn truncated(mut self) -> Self {
        self.text.truncate(boundary(&self.text, MAX_TEXT));
        self
    }

    /// Returns the first Extended DNS Error of a message, if any.
    pub fn of(edns: &Edns) -> Option<Self> {
        match edns.option(EdnsCode::Unknown(OPTION))? {
            EdnsOption::Unknown(_, data) => {
                let (code, text) = data.split_first_chunk::<2>()?;
                let text = String::from_utf8_lossy(text).into_owned();
                Some(Self { code: u16::from_be_bytes(*code), text })
            }
            _ => None,
        }
    }

    /// Returns the EDNS option.
    pub fn option(&self) -> EdnsOption {
        let mut data = self.code.to_be_bytes().to_vec();
        data.extend_from_slice(self.text.as_bytes());
        EdnsOption::Unknown(OPTION, data)
    }
}

impl fmt::Display for ExtendedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extended DNS error {}", self.code)?;
        match self.text.is_empty() {
            true => Ok(()),
            false => write!(f, ": {}", self.text.escape_debug()),
        }
    }
}

/// Returns the last character boundary at or before `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_its_option() {
        let error = ExtendedError::new(ErrorInfo::TooEarly, "wait for the handshake");
        let mut edns = Edns::new();
        assert_eq!(ExtendedError::of(&edns), None);
        edns.options_mut().insert(error.option());
        assert_eq!(ExtendedError::of(&edns), Some(error));
        let mut edns = Edns::new();
        edns.options_mut().insert(EdnsOption::Unknown(OPTION, vec![0]));
        assert_eq!(ExtendedError::of(&edns), None);
    }

    #[test]
    fn long_texts_are_truncated_at_a_character() {
        let error = ExtendedError::new(ErrorInfo::Other, "ä".repeat(150));
        assert_eq!(error.text.len(), 200);
        let error = ExtendedError::new(ErrorInfo::Other, format!("a{}", "ä".repeat(150)));
        assert_eq!(error.text.len(), 199);
    }
}
