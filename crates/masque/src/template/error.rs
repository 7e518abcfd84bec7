use core::fmt;

/// The reason why a URI template is rejected (RFC 9298 §2, RFC 9484 §3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TemplateError {
    /// A character is outside the range 0x21 to 0x7E.
    InvalidCharacter(char),
    /// A character is not permitted outside of expressions (RFC 6570 §2.1), or a percent sign is not
    /// followed by two hexadecimal digits.
    InvalidLiteral(char),
    /// The template does not begin with a scheme and `://`.
    NotAbsolute,
    /// The scheme is not `https`, which HTTP/3 requires.
    UnsupportedScheme,
    /// The authority is empty or not a valid host and port.
    InvalidAuthority,
    /// The path is missing: it must start with a slash.
    MissingPath,
    /// The template has a fragment.
    Fragment,
    /// An expression is in the scheme or the authority.
    VariableOutsidePath,
    /// A brace is unbalanced.
    UnbalancedBrace,
    /// An expression has no variable, or a variable's name is invalid.
    InvalidVariable,
    /// The operator is not permitted: it stands for reserved, fragment, label, path-segment or
    /// path-style expansion (RFC 9298 §2), or is reserved by RFC 6570.
    ForbiddenOperator(char),
    /// A `{?…}` expression appears after the start of the query, or a `{&…}` expression before it.
    MisplacedOperator(char),
    /// An expression has a prefix or explode modifier, which requires a template of level 4.
    Modifier(char),
    /// A variable appears twice.
    DuplicateVariable,
    /// A variable that the tunnel needs is missing.
    MissingVariable(&'static str),
    /// A server cannot determine where the value of a variable ends.
    Undelimited,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::InvalidCharacter(c) => {
                return write!(
                    f,
                    "the URI template has the character {c:?}; only visible ASCII is allowed"
                );
            }
            Self::InvalidLiteral(c) => {
                return write!(f, "the URI template has {c:?} outside of an expression; encode it");
            }
            Self::ForbiddenOperator(c) => {
                return write!(
                    f,
                    "the URI template has the operator {c:?}; only {{name}}, {{?name}} and \
                     {{&name}} are allowed"
                );
            }
            Self::MisplacedOperator(c) => {
                return write!(
                    f,
                    "the URI template has the operator {c:?} in the wrong place; {{?name}} begins \
                     the query, {{&name}} continues it"
                );
            }
            Self::Modifier(c) => {
                return write!(f, "the URI template has the level 4 modifier {c:?}; remove it");
            }
            Self::MissingVariable(name) => {
                return write!(f, "the URI template has no variable {name}; add {{{name}}}");
            }
            Self::NotAbsolute => "the URI template is not absolute; begin it with https://",
            Self::UnsupportedScheme => {
                "the URI template's scheme is not supported; begin it with https://"
            }
            Self::InvalidAuthority => {
                "the URI template's authority is invalid; use a host and an optional port"
            }
            Self::MissingPath => "the URI template has no path; add a slash after the authority",
            Self::Fragment => "the URI template has a fragment; remove it",
            Self::VariableOutsidePath => {
                "the URI template has a variable in its scheme or authority; only the path and the \
                 query may have variables"
            }
            Self::UnbalancedBrace => "the URI template has an unbalanced brace",
            Self::InvalidVariable => {
                "the URI template has an invalid variable name; use letters, digits, underscores \
                 and dots"
            }
            Self::DuplicateVariable => "the URI template has the same variable twice",
            Self::Undelimited => {
                "the URI template has a variable whose end is ambiguous; put a slash after it"
            }
        };
        f.write_str(text)
    }
}

impl core::error::Error for TemplateError {}

/// The reason why a URI template cannot be expanded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ExpandError {
    /// The values belong to another kind of tunnel.
    WrongKind,
    /// The template has no variable for a value. The tunnel would therefore have a wider scope than
    /// requested.
    NoVariable(&'static str),
    /// The result is too long to be a valid URI.
    InvalidUri,
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongKind => f.write_str("the URI template is for another kind of tunnel"),
            Self::NoVariable(name) => {
                write!(f, "the URI template has no variable {name}; pass *, or add {{{name}}}")
            }
            Self::InvalidUri => f.write_str("the expanded URI is too long; shorten the template"),
        }
    }
}

impl core::error::Error for ExpandError {}
