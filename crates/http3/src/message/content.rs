/// The rule for the content of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContentRule {
    /// The content has the length in the content-length field, or any length if there is no such
    /// field.
    Length(Option<u64>),
    /// There is no content, regardless of content-length (RFC 9110 §6.4.1).
    None,
    /// The content is the data of a CONNECT tunnel, to which content-length does not apply (RFC
    /// 9110 §9.3.6).
    Tunnel,
}

/// Counts the content of one message and checks it against its rule (RFC 9114 §4.1.2).
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

    /// Returns the number of content bytes counted so far.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// Returns the required number of bytes of content, if known.
    pub(crate) const fn announced(&self) -> Option<u64> {
        match self.rule {
            ContentRule::Length(announced) => announced,
            ContentRule::None => Some(0),
            ContentRule::Tunnel => None,
        }
    }

    /// Returns whether `more` bytes would stay within the required length.
    pub(crate) fn admits(&self, more: u64) -> bool {
        let length = self.length.saturating_add(more);
        self.announced().is_none_or(|announced| length <= announced)
    }

    /// Counts `more` bytes.
    pub(crate) fn add(&mut self, more: u64) {
        self.length = self.length.saturating_add(more);
    }

    /// Returns whether the message may end here.
    pub(crate) fn is_complete(&self) -> bool {
        self.announced().is_none_or(|announced| self.length == announced)
    }
}
