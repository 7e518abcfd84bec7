//! Parsing of URI templates.

use http::uri::Authority;

use super::{Part, Role, TemplateError, UriTemplate, Variable};
use crate::kind::TunnelKind;

/// Operators that RFC 9298 §2 forbids, and those that RFC 6570 §2.2 reserves.
const FORBIDDEN: &str = "+#./;=,!@|";

pub(super) fn template(kind: TunnelKind, text: &str) -> Result<UriTemplate, TemplateError> {
    if let Some(c) = text.chars().find(|c| !('\u{21}'..='\u{7e}').contains(c)) {
        return Err(TemplateError::InvalidCharacter(c));
    }
    let (scheme, rest) = text.split_once("://").ok_or(TemplateError::NotAbsolute)?;
    if scheme.contains('{') {
        return Err(TemplateError::VariableOutsidePath);
    }
    if !scheme.eq_ignore_ascii_case("https") {
        return Err(TemplateError::UnsupportedScheme);
    }
    let end = rest.find(['/', '?', '#', '{']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or_default();
    let is_variable = path.starts_with('{') && !path.starts_with("{?") && !path.starts_with("{&");
    if is_variable {
        return Err(TemplateError::VariableOutsidePath);
    }
    let authority = parse_authority(authority)?;
    if !path.starts_with('/') {
        return Err(TemplateError::MissingPath);
    }
    let parts = parts(kind, path)?;
    check_variables(kind, &parts)?;
    let is_delimited = is_delimited(&parts);
    Ok(UriTemplate { kind, authority, parts, is_delimited })
}

/// Returns the parts of the default template.
pub(super) fn well_known(kind: TunnelKind) -> Vec<Part> {
    // The default templates are valid: see the tests.
    parts(kind, kind.well_known_path()).unwrap_or_default()
}

fn parse_authority(text: &str) -> Result<Authority, TemplateError> {
    let authority: Authority = text.parse().map_err(|_| TemplateError::InvalidAuthority)?;
    // User information does not belong in an https URI (RFC 9110 §4.2.4).
    let is_valid = !text.contains('@') && !authority.host().is_empty();
    // `Authority` accepts ports that are not numbers below 65536.
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    if is_valid && has_port == authority.port_u16().is_some() {
        Ok(authority)
    } else {
        Err(TemplateError::InvalidAuthority)
    }
}

/// Parses the path and the query.
fn parts(kind: TunnelKind, mut rest: &str) -> Result<Vec<Part>, TemplateError> {
    let mut parts = Vec::new();
    let mut is_query = false;
    while !rest.is_empty() {
        let end = rest.find(['{', '}']).unwrap_or(rest.len());
        let (literal, after) = rest.split_at_checked(end).unwrap_or_default();
        check_literal(literal)?;
        is_query |= literal.contains('?');
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.to_owned()));
        }
        if after.is_empty() {
            break;
        }
        let expression = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let (expression, after) = expression.ok_or(TemplateError::UnbalancedBrace)?;
        parts.push(parse_expression(kind, expression, &mut is_query)?);
        rest = after;
    }
    Ok(parts)
}

fn check_literal(literal: &str) -> Result<(), TemplateError> {
    if literal.contains('#') {
        return Err(TemplateError::Fragment);
    }
    if let Some(c) = literal.chars().find(|c| "\"<>\\^`|".contains(*c)) {
        return Err(TemplateError::InvalidLiteral(c));
    }
    let is_encoded = |part: &str| {
        let digits = part.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if literal.split('%').skip(1).all(is_encoded) {
        Ok(())
    } else {
        Err(TemplateError::InvalidLiteral('%'))
    }
}

fn parse_expression(
    kind: TunnelKind,
    expression: &str,
    is_query: &mut bool,
) -> Result<Part, TemplateError> {
    let operator = expression.chars().next().ok_or(TemplateError::InvalidVariable)?;
    if FORBIDDEN.contains(operator) {
        return Err(TemplateError::ForbiddenOperator(operator));
    }
    let form = expression.strip_prefix(['?', '&']);
    let names = form.unwrap_or(expression).split(',');
    let variables = names.map(|name| parse_variable(kind, name)).collect::<Result<_, _>>()?;
    if form.is_none() {
        return Ok(Part::Simple(variables));
    }
    if *is_query != (operator == '&') {
        return Err(TemplateError::MisplacedOperator(operator));
    }
    *is_query = true;
    Ok(Part::Form { first: operator, variables })
}

fn parse_variable(kind: TunnelKind, name: &str) -> Result<Variable, TemplateError> {
    if let Some(c) = name.chars().find(|c| ":*".contains(*c)) {
        return Err(TemplateError::Modifier(c));
    }
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    let is_name = !name.is_empty() && name.chars().all(is_valid);
    if !is_name || name.starts_with('.') || name.ends_with('.') || name.contains("..") {
        return Err(TemplateError::InvalidVariable);
    }
    let role = match (kind, name) {
        (TunnelKind::Udp | TunnelKind::Tcp, "target_host") => Role::TargetHost,
        (TunnelKind::Udp | TunnelKind::Tcp, "target_port") => Role::TargetPort,
        (TunnelKind::Ip, "target") => Role::Target,
        (TunnelKind::Ip, "ipproto") => Role::Protocol,
        _ => Role::Other,
    };
    Ok(Variable { name: name.to_owned(), role })
}

fn check_variables(kind: TunnelKind, parts: &[Part]) -> Result<(), TemplateError> {
    let variables = || parts.iter().flat_map(Part::variables);
    for (index, variable) in variables().enumerate() {
        if variables().take(index).any(|earlier| earlier.name == variable.name) {
            return Err(TemplateError::DuplicateVariable);
        }
    }
    let required: &[_] = match kind {
        TunnelKind::Udp | TunnelKind::Tcp => {
            &[(Role::TargetHost, "target_host"), (Role::TargetPort, "target_port")]
        }
        TunnelKind::Ip => &[],
    };
    for (role, name) in required {
        if !variables().any(|variable| variable.role == *role) {
            return Err(TemplateError::MissingVariable(name));
        }
    }
    Ok(())
}

/// Returns whether the end of each value is unambiguous.
fn is_delimited(parts: &[Part]) -> bool {
    let is_in_values = |c: char| c.is_ascii_alphanumeric() || "-._~%*,".contains(c);
    let following = parts.iter().skip(1).map(Some).chain([None]);
    parts.iter().zip(following).all(|(part, next)| match (part, next) {
        (Part::Literal(_), _) | (_, None) => true,
        (Part::Simple(_), Some(Part::Literal(next))) => !next.starts_with(is_in_values),
        (Part::Simple(_), Some(next)) => matches!(next, Part::Form { .. }),
        (Part::Form { .. }, Some(Part::Literal(next))) => next.starts_with('&'),
        (Part::Form { .. }, Some(next)) => matches!(next, Part::Form { .. }),
    })
}
