/// What the content of a message may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContentRule {
    /// As long as the content-length field announces; any length without one.
    Length(Option<u64>),
    /// No content, whatever content-length announces (RFC 9110 §6.4.1).
    None,
    /// The data of a CONNECT tunnel, to which content-length does not apply (RFC 9110 §9.3.6).
    Tunnel,
}

/// Compares the content of one message with its announced length (RFC 9114 §4.1.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    rule: ContentRule,
    length: u64,
}

impl Content {
    pub(crate) const fn new(rule: ContentRule) -> Self {
        Self { rule, length: 0 }
    }

    pub(crate) const fn is_tunnel(&self) -> bool {
        matches!(self.rule, ContentRule::Tunnel)
    }

    /// How much content there was.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// How much content there must be, if that is known.
    pub(crate) const fn announced(&self) -> Option<u64> {
        match self.rule {
            ContentRule::Length(announced) => announced,
            ContentRule::None => Some(0),
            ContentRule::Tunnel => None,
        }
    }

    /// Whether `more` bytes would still be within the announced length.
    pub(crate) fn admits(&self, more: u64) -> bool {
        let length = self.length.saturating_add(more);
        self.announced().is_none_or(|announced| length <= announced)
    }

    /// Counts `more` bytes.
    pub(crate) fn add(&mut self, more: u64) {
        self.length = self.length.saturating_add(more);
    }

    /// Whether the message may end here.
    pub(crate) fn is_complete(&self) -> bool {
        self.announced().is_none_or(|announced| self.length == announced)
    }
}
