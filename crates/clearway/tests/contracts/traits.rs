//! Traits that users implement may panic, block, or return errors.
