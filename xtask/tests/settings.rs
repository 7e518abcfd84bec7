//! Checks that every public setting that is a number or a duration is tested at its minimum and
//! maximum. Its name must be in the table of a test, or be listed below with the reason.

use std::path::Path;

/// The packages that define the settings, and the files with the test tables.
const TABLES: [(&str, &str); 5] = [
    ("transport", "transport/tests/suite/settings.rs"),
    ("clearway", "clearway/tests/http3/settings.rs"),
    ("http3", "http3/src/connection_tests/exchange.rs"),
    // Settings of clearway::ServerConfig.
    ("io", "clearway/tests/http3/settings.rs"),
    ("forward", "forward/src/tests.rs"),
];

/// Settings that are in none of the tables, with the reason for each.
const EXCEPTIONS: [(&str, &str); 13] = [
    ("Config.max_field_section_size", "exchange.rs tests it with messages, not in its table"),
    ("Config.max_informational_responses", "exchange.rs tests it with messages, not in its table"),
    (
        "http3::Server.max_connection_age",
        "http3/wakes_tests/handles.rs tests its bounds with a clock",
    ),
    ("TlsServerConfig.max_session_age", "binding_tests.rs tests its bounds with a clock"),
    ("TransportError.in_frame", "not a setting, but the type of a frame"),
    ("Settings.max_field_section_size", "not a separate setting, but Config's value for the peer"),
    ("Settings.qpack_blocked_streams", "not a separate setting, but Config's value for the peer"),
    (
        "Settings.qpack_max_table_capacity",
        "not a separate setting, but Config's value for the peer",
    ),
    ("masque::IpOptions.addresses_per_tunnel", "clearway/tests/masque/ip.rs tests its bounds"),
    ("masque::IpRelayOptions.protocol", "not a limit, but the number of an IP protocol"),
    ("masque::RelayOptions.idle_timeout", "clearway/tests/masque/udp.rs tests its bounds"),
    ("http3::Timeouts.request", "progress_tests.rs tests its bounds with a clock"),
    ("http3::Timeouts.send", "progress_tests.rs tests its bounds with a clock"),
];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns whether a type is a number or a duration, including optional and nonzero ones.
fn is_number(kind: &str) -> bool {
    let inner = kind.strip_prefix("Option<").and_then(|kind| kind.strip_suffix('>'));
    let inner = inner.unwrap_or(kind).trim_start_matches("NonZero").to_ascii_lowercase();
    ["u8", "u16", "u32", "u64", "usize", "f32", "f64", "duration"].contains(&inner.as_str())
}

/// Returns the setting that a line of the public API declares, as `Type.name`: a field of a
/// settings type, or a method that takes a number and returns the changed value.
fn setting(line: &str) -> Option<String> {
    if let Some((of, method)) = line.split_once(": fn ") {
        let (name, parameters) = method.split_once('(')?;
        let parameters = parameters.strip_suffix(") -> Self")?;
        let (receiver, value) = parameters.split_once(", ")?;
        let (_, kind) = value.split_once(": ")?;
        let is_setter = ["self", "mut self"].contains(&receiver) && is_number(kind);
        return is_setter.then(|| format!("{of}.{name}"));
    }
    let (place, kind) = line.split_once(": ")?;
    let (of, name) = place.split_once('.')?;
    let kinds = ["Admission", "Config", "Options", "Settings", "Setup", "Limits", "Timeouts"];
    let is_setting = kinds.iter().any(|kind| of.ends_with(kind)) && is_number(kind);
    is_setting.then(|| format!("{of}.{name}"))
}

#[test]
fn every_setting_is_exchanged_at_its_least_and_greatest() {
    let mut exceptions = EXCEPTIONS.map(|(name, _)| name).to_vec();
    let mut missing = Vec::new();
    for (package, table) in TABLES {
        let table = read(&format!("crates/{table}"));
        let surface = read(&format!("docs/surface/{package}.txt"));
        let settings: Vec<String> = surface.lines().filter_map(setting).collect();
        assert!(!settings.is_empty(), "{package}");
        for setting in settings {
            let before = exceptions.len();
            exceptions.retain(|exception| *exception != setting);
            let (_, name) = setting.split_once('.').unwrap_or_default();
            if exceptions.len() == before && !table.contains(&format!("\"{name}\"")) {
                missing.push(format!("{package}: {setting}"));
            }
        }
    }
    assert_eq!(missing, [""; 0], "neither in a table nor among the exceptions");
    assert_eq!(exceptions, [""; 0], "there is no such setting");
}
