use core::fmt;
use std::sync::Arc;

use super::{Credentials, Secret};

/// The reason why a credentials file is invalid. It never contains a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CredentialsError {
    /// The line, starting at 1.
    pub line: usize,
    /// What is wrong with the line.
    pub problem: CredentialsProblem,
}

/// What is wrong with a line of a credentials file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CredentialsProblem {
    /// It begins with something other than `basic`, `bearer` or `certificate`.
    UnknownKind,
    /// The name is missing, or contains a colon.
    Name,
    /// The password or token is missing.
    NoSecret,
    /// The name, the token or the certificate already appears on an earlier line.
    Duplicate,
    /// There is text after the entry.
    Excess,
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problem = match self.problem {
            CredentialsProblem::UnknownKind => {
                "unknown kind; begin the line with basic, bearer or certificate"
            }
            CredentialsProblem::Name => "no name, or a name with a colon",
            CredentialsProblem::NoSecret => "no password or token",
            CredentialsProblem::Duplicate => "the entry repeats an earlier one; remove it",
            CredentialsProblem::Excess => "text after the entry",
        };
        write!(f, "cannot use the credentials: line {}: {problem}", self.line)
    }
}

impl core::error::Error for CredentialsError {}

pub(super) fn parse(text: &str) -> Result<Credentials, CredentialsError> {
    let mut credentials = Credentials::default();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if !text.is_empty() && !text.starts_with('#') {
            let added = add(&mut credentials, line, text);
            added.map_err(|problem| CredentialsError { line, problem })?;
        }
    }
    Ok(credentials)
}

fn add(credentials: &mut Credentials, line: usize, text: &str) -> Result<(), CredentialsProblem> {
    let (kind, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let (first, rest) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (first, rest) = (first.trim(), rest.trim());
    let is_new = match kind {
        "basic" => {
            let name = name(first)?;
            if rest.is_empty() {
                return Err(CredentialsProblem::NoSecret);
            }
            credentials.passwords.insert(name, Secret(rest.as_bytes().into())).is_none()
        }
        "bearer" => {
            if first.is_empty() {
                return Err(CredentialsProblem::NoSecret);
            }
            let secret = Secret(first.as_bytes().into());
            let name = match rest {
                "" => format!("bearer-{line}").into(),
                rest => single(rest)?,
            };
            let is_new = credentials.tokens.iter().all(|(earlier, _)| *earlier != secret);
            credentials.tokens.push((secret, name));
            is_new
        }
        "certificate" => {
            let name = name(first)?;
            if !rest.is_empty() {
                return Err(CredentialsProblem::Excess);
            }
            credentials.certificates.insert(name)
        }
        _ => return Err(CredentialsProblem::UnknownKind),
    };
    if is_new { Ok(()) } else { Err(CredentialsProblem::Duplicate) }
}

fn name(text: &str) -> Result<Arc<str>, CredentialsProblem> {
    match text.is_empty() || text.contains(':') {
        true => Err(CredentialsProblem::Name),
        false => Ok(text.into()),
    }
}

fn single(text: &str) -> Result<Arc<str>, CredentialsProblem> {
    match text.contains(char::is_whitespace) {
        true => Err(CredentialsProblem::Excess),
        false => Ok(text.into()),
    }
}
