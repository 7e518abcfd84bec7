//! Checks that the table of limits in SECURITY.md states the code's defaults.
//!
//! Each row lists constants, fields of a `Default` implementation, or options with a default. Their
//! values are computed from the source code, so that no number is repeated here.

use std::path::{Path, PathBuf};

use syn::{Expr, Fields, ImplItem, Item, Lit, Stmt};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The value of a limit: a number, bytes, or nanoseconds.
type Value = u128;

/// Returns the cells of the table's rows.
fn rows(text: &str) -> Vec<Vec<String>> {
    let section = text.split("\n## Limits\n").nth(1).expect("a section on limits");
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.map(cells).collect()
}

/// Parses a number with a unit: `1,024`, `64 KiB`, `30 s`.
fn stated(text: &str) -> Option<Value> {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != ',');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let number: Value = number.replace(',', "").parse().ok()?;
    let factor = match unit.trim() {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "" | "bytes" => 1,
        _ => return None,
    };
    Some(number * factor)
}

/// The location of a default value: a file, and `CONSTANT`, `CONSTANT.field` or `Type.field` in
/// that file.
struct Place {
    file: String,
    name: String,
    field: Option<String>,
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let (path, name) = text.trim().trim_matches('`').split_once(' ')?;
        let (package, rest) = path.split_once('/')?;
        let (name, field) = match name.split_once('.') {
            Some((name, field)) => (name, Some(field.to_owned())),
            None => (name, None),
        };
        let file = format!("crates/{package}/src/{rest}");
        Some(Self { file, name: name.to_owned(), field })
    }

    fn value(&self) -> Option<Value> {
        let text = std::fs::read_to_string(root().join(&self.file)).ok()?;
        let file = syn::parse_file(&text).ok()?;
        match &self.field {
            None => evaluate(constant(&file.items, &self.name)?, &file.items),
            Some(field) => match constant(&file.items, &self.name) {
                Some(value) => evaluate(member(value, field)?, &file.items),
                None => default_of(&file.items, &self.name, field)
                    .or_else(|| option(&file.items, &self.name, field)),
            },
        }
    }
}

/// Returns the value of a constant, which may be in an `impl`.
fn constant<'a>(items: &'a [Item], name: &str) -> Option<&'a Expr> {
    items.iter().find_map(|item| match item {
        Item::Const(item) if item.ident == name => Some(&*item.expr),
        Item::Impl(item) => item.items.iter().find_map(|item| match item {
            ImplItem::Const(item) if item.ident == name => Some(&item.expr),
            _ => None,
        }),
        _ => None,
    })
}

/// Returns the value of a field in a struct expression.
fn member<'a>(expression: &'a Expr, field: &str) -> Option<&'a Expr> {
    let Expr::Struct(expression) = expression else { return None };
    let is_named =
        |member: &syn::Member| matches!(member, syn::Member::Named(name) if name == field);
    expression.fields.iter().find(|value| is_named(&value.member)).map(|value| &value.expr)
}

/// Returns the value of a field in an `impl Default`.
fn default_of(items: &[Item], name: &str, field: &str) -> Option<Value> {
    items.iter().find_map(|item| {
        let Item::Impl(item) = item else { return None };
        let (implemented, _) = item.trait_.as_ref()?;
        let is_default = implemented.segments.last()?.ident == "Default";
        let syn::Type::Path(own) = &*item.self_ty else { return None };
        if !is_default || own.path.segments.last()?.ident != name {
            return None;
        }
        let ImplItem::Fn(function) = item.items.first()? else { return None };
        let Stmt::Expr(made, None) = function.block.stmts.last()? else { return None };
        evaluate(member(made, field)?, items)
    })
}

/// Returns the default of a command-line option.
fn option(items: &[Item], name: &str, field: &str) -> Option<Value> {
    let options = items.iter().find_map(|item| match item {
        Item::Struct(item) if item.ident == name => Some(item),
        _ => None,
    })?;
    let Fields::Named(fields) = &options.fields else { return None };
    let field =
        fields.named.iter().find(|own| own.ident.as_ref().is_some_and(|name| name == field))?;
    let mut found = None;
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("arg")) {
        let parsed = attribute.parse_nested_meta(|meta| {
            if meta.input.peek(syn::Token![=]) {
                let value: Expr = meta.value()?.parse()?;
                if meta.path.is_ident("default_value") || meta.path.is_ident("default_value_t") {
                    found = evaluate(&value, items);
                }
            }
            Ok(())
        });
        parsed.ok()?;
    }
    found
}

/// Evaluates an expression of constants.
fn evaluate(expression: &Expr, items: &[Item]) -> Option<Value> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            Lit::Str(text) => of_option(&text.value()),
            _ => None,
        },
        Expr::Paren(inner) => evaluate(&inner.expr, items),
        Expr::Cast(cast) => evaluate(&cast.expr, items),
        Expr::Path(path) => {
            let name = path.path.segments.last()?.ident.to_string();
            evaluate(constant(items, &name)?, items)
        }
        Expr::Binary(binary) => {
            let (left, right) = (evaluate(&binary.left, items)?, evaluate(&binary.right, items)?);
            match binary.op {
                syn::BinOp::Shl(_) => left.checked_shl(u32::try_from(right).ok()?),
                syn::BinOp::Mul(_) => left.checked_mul(right),
                syn::BinOp::Add(_) => left.checked_add(right),
                syn::BinOp::Sub(_) => left.checked_sub(right),
                _ => None,
            }
        }
        Expr::Call(call) => {
            let Expr::Path(function) = &*call.func else { return None };
            let value = evaluate(call.args.first()?, items)?;
            match function.path.segments.last()?.ident.to_string().as_str() {
                "from_secs" => value.checked_mul(1_000_000_000),
                "from_millis" => value.checked_mul(1_000_000),
                "Some" | "new" => Some(value),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Parses a value in command-line syntax: `256MiB`, `60s`, `4096`.
fn of_option(text: &str) -> Option<Value> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    stated(&format!("{number} {unit}"))
}

/// Returns a description of what is wrong with a row, if anything is.
fn problem(row: &[String]) -> Option<String> {
    let [_, what, default, _, _, code] = row else {
        return Some(format!("{row:?} does not have six cells"));
    };
    let (stated_all, places): (Vec<&str>, Vec<&str>) =
        (default.split(';').collect(), code.split(';').collect());
    if stated_all.len() != places.len() {
        return Some(format!(
            "{what}: the number of code locations differs from the number of defaults"
        ));
    }
    stated_all.into_iter().zip(places).find_map(|(text, place)| {
        let Some(found) = Place::parse(place).and_then(|place| place.value()) else {
            return Some(format!("{what}: {place} is not in the code, or has no plain value"));
        };
        (stated(text) != Some(found))
            .then(|| format!("{what}: {text} is stated, {place} is {found}"))
    })
}

#[test]
fn the_table_of_limits_states_the_defaults_of_the_code() {
    let text = std::fs::read_to_string(root().join("SECURITY.md")).expect("SECURITY.md");
    let rows = rows(&text);
    assert!(!rows.is_empty());
    let problems: Vec<String> = rows.iter().filter_map(|row| problem(row)).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Every limit in the settings of the transport or of HTTP/3 must have a row, so that a new limit
/// is not forgotten.
#[test]
fn every_limit_among_the_settings_has_a_row() {
    // Settings that do not limit how much state a peer can make Clearway keep.
    let other = [
        "max_datagram_size",
        "max_datagram_frame_size",
        "max_ack_delay",
        "maximum_window",
        "datagram_send_buffer",
        "datagram_send_limit",
    ];
    let security = std::fs::read_to_string(root().join("SECURITY.md")).expect("SECURITY.md");
    let is_limit = |name: &str| {
        ["max", "_limit", "_buffer", "_window", "_timeout", "blocked"]
            .iter()
            .any(|part| name.contains(part))
    };
    for (path, name) in [("transport/config.rs", "TransportConfig"), ("http3/config.rs", "Config")]
    {
        let (package, file) = path.split_once('/').expect("a package");
        let text = std::fs::read_to_string(root().join(format!("crates/{package}/src/{file}")));
        let file = syn::parse_file(&text.expect("the settings")).expect("Rust");
        let settings = file.items.iter().find_map(|item| match item {
            Item::Struct(item) if item.ident == name => Some(item),
            _ => None,
        });
        for field in &settings.expect("the settings").fields {
            let field = field.ident.as_ref().expect("a name").to_string();
            let is_ours = field.contains("encoder") || field.starts_with("initial_window");
            if is_limit(&field) && !is_ours && !other.contains(&field.as_str()) {
                let place = format!("`{path} {name}.{field}`");
                assert!(security.contains(&place), "{place} has no row in SECURITY.md");
            }
        }
    }
}

#[test]
fn a_wrong_default_is_noticed() {
    let row = |default: &str, code: &str| {
        ["connection", "something", default, "none", "nothing", code].map(str::to_owned)
    };
    let place = "`transport/path.rs MAX_RESPONSES`";
    assert_eq!(problem(&row("4", place)), None);
    assert!(problem(&row("5", place)).is_some());
    assert!(problem(&row("4", "`transport/path.rs MAX_NOTHING`")).is_some());
    assert!(problem(&row("4; 5", place)).is_some());
    assert_eq!(stated("1,024 bytes"), Some(1024));
    assert_eq!(stated("64 KiB"), Some(65_536));
    assert_eq!(stated("many"), None);
}
