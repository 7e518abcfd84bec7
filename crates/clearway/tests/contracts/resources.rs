//! Resources of endpoints: descriptors, threads, and tasks end with what they belong to.
