//! The checker's own recovery period, in the order of sending (RFC 9002 §7.3.2).

/// The state since the last reduction of the window.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct Episode {
    /// The report that it began with. Losses in this report or later belong to this period.
    pub(in crate::checker) event: u64,
    /// The first packet sent after the last reduction.
    pub(in crate::checker) boundary: u64,
    /// The first packet sent after the last collapse to the minimum window.
    pub(in crate::checker) collapsed: u64,
    /// Whether no packet sent after the reduction has been acknowledged.
    pub(in crate::checker) is_open: bool,
    /// The number of packets declared lost since, including the event that began it, that have not
    /// arrived.
    pub(in crate::checker) missing: u64,
    /// Whether it can be undone.
    pub(in crate::checker) can_be_undone: bool,
    /// The window before it.
    pub(in crate::checker) window_before: u64,
    boundary_before: u64,
    /// For PRR (RFC 9937 §6): the bytes in flight when it began, and those delivered and sent
    /// since.
    pub(in crate::checker) recover_fs: u64,
    pub(in crate::checker) delivered: u64,
    pub(in crate::checker) out: u64,
}

/// The event that caused a reduction.
#[derive(Clone, Copy, Debug)]
pub(in crate::checker) struct Beginning {
    /// The position of the next packet in the order of sending.
    pub(in crate::checker) next_index: u64,
    /// The number of the report.
    pub(in crate::checker) event: u64,
    pub(in crate::checker) window_before: u64,
    /// Bytes in flight before the event.
    pub(in crate::checker) in_flight: u64,
    /// Bytes that it acknowledged.
    pub(in crate::checker) delivered: u64,
    /// The number of packets that it declared lost.
    pub(in crate::checker) missing: u64,
}

impl Episode {
    /// Begins a period, because the window was reduced.
    pub(in crate::checker) fn begin(&mut self, beginning: Beginning) {
        *self = Self {
            event: beginning.event,
            boundary: beginning.next_index,
            collapsed: self.collapsed,
            is_open: true,
            missing: beginning.missing,
            can_be_undone: true,
            window_before: beginning.window_before,
            boundary_before: self.boundary,
            recover_fs: beginning.in_flight.max(1),
            delivered: beginning.delivered,
            out: 0,
        };
    }

    /// Processes a collapse of the window: there is nothing left to recover from (RFC 9002 §7.6.2).
    pub(in crate::checker) fn collapse(&mut self, next_index: u64) {
        self.collapsed = next_index;
        self.is_open = false;
        self.can_be_undone = false;
    }

    /// Undoes the last reduction: the packets that caused it count as they did before.
    pub(in crate::checker) fn undo(&mut self) {
        self.boundary = self.boundary_before;
        self.is_open = false;
        self.can_be_undone = false;
    }

    /// Returns the boundary from which on losses of packets are new congestion. `is_undone`: the
    /// same event undoes the last reduction.
    pub(in crate::checker) fn boundary_after(&self, is_undone: bool) -> u64 {
        if is_undone { self.boundary_before } else { self.boundary }
    }

    /// Returns how much PRR permits to be in flight (RFC 9937 §6.2): `delivered` bytes were just
    /// acknowledged, and `in_flight` are left.
    pub(in crate::checker) fn proportional_window(
        &self,
        threshold: u64,
        delivered: u64,
        in_flight: u64,
        datagram: u64,
    ) -> u64 {
        let count = if in_flight > threshold {
            let product = u128::from(self.delivered) * u128::from(threshold);
            let out = product.div_ceil(u128::from(self.recover_fs));
            u64::try_from(out).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            let bound = self.delivered.saturating_sub(self.out).max(delivered) + datagram;
            bound.min(threshold - in_flight)
        };
        let count = if self.out == 0 { count.max(datagram) } else { count };
        in_flight + count
    }
}
