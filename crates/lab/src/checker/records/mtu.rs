//! The datagram size (RFC 8899), according to acknowledged probes and the endpoint's reports.

/// The state of the path's MTU. All sizes are in bytes of UDP payload.
#[derive(Clone, Copy, Debug)]
pub(in crate::checker) struct MtuRecords {
    /// The datagram size at the beginning of each path.
    initial: u64,
    /// The size of full datagrams, as reported by the endpoint.
    pub(in crate::checker) size: u64,
    /// The largest size that passed the path since it began, or since the size last decreased.
    validated: u64,
    /// Whether the size has changed since the last report.
    pub(in crate::checker) is_new: bool,
    /// The number of probes that have been neither acknowledged nor declared lost.
    pub(in crate::checker) outstanding: u64,
}

impl MtuRecords {
    pub(in crate::checker) fn new(initial: u64) -> Self {
        Self { initial, size: initial, validated: initial, is_new: false, outstanding: 0 }
    }

    /// Starts another path, with no information about its MTU. Probes of the previous path may
    /// still be outstanding but are not counted.
    pub(in crate::checker) fn start_path(&mut self) {
        *self = Self::new(self.initial);
    }

    /// Records that a probe was sent.
    pub(in crate::checker) fn on_sent(&mut self) {
        self.outstanding += 1;
    }

    /// Records that a probe of `bytes` on the current path was acknowledged. If `was_outstanding`,
    /// it had not been declared lost.
    pub(in crate::checker) fn on_acknowledged(&mut self, bytes: u64, was_outstanding: bool) {
        self.validated = self.validated.max(bytes);
        self.outstanding = self.outstanding.saturating_sub(u64::from(was_outstanding));
    }

    /// Records that a probe on the current path was declared lost.
    pub(in crate::checker) fn on_lost(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Records that the endpoint reports a new size of full datagrams.
    ///
    /// # Errors
    /// Returns an error if no probe of that size has been acknowledged.
    pub(in crate::checker) fn on_updated(&mut self, size: u64) -> Result<(), String> {
        let validated = self.validated;
        self.is_new |= size != self.size;
        if size < self.size {
            self.validated = size;
        }
        self.size = size;
        match size > validated {
            true => Err(format!(
                "the datagram size is now {size} bytes, but only {validated} bytes are validated \
                 for the path"
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MtuRecords;

    #[test]
    fn a_size_has_to_pass_first_and_again_after_it_fell() {
        let mut records = MtuRecords::new(1200);
        assert!(records.on_updated(1472).is_err());
        let mut records = MtuRecords::new(1200);
        records.on_sent();
        records.on_acknowledged(1472, true);
        assert_eq!(records.outstanding, 0);
        assert_eq!(records.on_updated(1472), Ok(()));
        assert_eq!(records.on_updated(1200), Ok(()));
        assert!(records.on_updated(1472).is_err());
        records.start_path();
        assert_eq!((records.size, records.validated), (1200, 1200));
    }
}
