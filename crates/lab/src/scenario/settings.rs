//! Sets of optional settings, and the merging of such sets.

/// A set of settings that another set can override: every setting that `over` contains replaces the one in `self`.
pub(super) trait Overlay {
    fn overlay(&mut self, over: &Self);
}

impl<T: Clone> Overlay for Option<T> {
    fn overlay(&mut self, over: &Self) {
        if over.is_some() {
            self.clone_from(over);
        }
    }
}

/// Defines a table of optional keys that can override another table.
///
/// The second form defines two tables from one list of keys: one for a single part (one direction,
/// one endpoint, one controller), and one for all parts together, which may contain a table for
/// each part that overrides the shared settings. The method named after a part returns the settings
/// that apply to that part.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        struct $name:ident { $($(#[$note:meta])* $field:ident: $type:ty),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(in crate::scenario) struct $name {
            $($(#[$note])* pub(in crate::scenario) $field: $type,)*
        }

        impl $crate::scenario::settings::Overlay for $name {
            fn overlay(&mut self, over: &Self) {
                $($crate::scenario::settings::Overlay::overlay(&mut self.$field, &over.$field);)*
            }
        }
    };
    (
        $(#[$meta:meta])*
        struct $name:ident { $($(#[$note:meta])* $field:ident: $type:ty),* $(,)? }
        $(#[$all_meta:meta])*
        for all in $all:ident { $($part:ident),* $(,)? }
    ) => {
        settings! {
            $(#[$meta])*
            struct $name { $($(#[$note])* $field: $type),* }
        }

        $(#[$all_meta])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(in crate::scenario) struct $all {
            $($(#[$note])* $field: $type,)*
            $($part: $name,)*
        }

        impl $all {
            fn shared(&self) -> $name {
                $name { $($field: self.$field.clone(),)* }
            }

            $(pub(in crate::scenario) fn $part(&self) -> $name {
                let mut part = self.shared();
                $crate::scenario::settings::Overlay::overlay(&mut part, &self.$part);
                part
            })*
        }
    };
}

pub(super) use settings;
