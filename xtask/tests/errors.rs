//! Checks that every public error type of the libraries is `#[non_exhaustive]`, so that it can be
//! extended, and returns its cause from `source()`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Fields, Item, PathArguments, Type, TypeParamBound, Visibility};

/// Errors that other crates construct or destructure, which `#[non_exhaustive]` would forbid. Each
/// is listed with its folder in `crates/`.
const CONSTRUCTED_ELSEWHERE: [(&str, &str); 2] = [
    ("transport", "ExportError"), // constructed by implementations of `Session`
    ("lab", "Inapplicable"),      // constructed by comparisons of runs
];

/// A public type that implements `Error`.
#[derive(Default)]
struct Declared {
    file: PathBuf,
    is_non_exhaustive: bool,
    /// The last path segments of its field types.
    contents: BTreeSet<String>,
    has_source: bool,
}

#[test]
fn every_public_error_is_non_exhaustive_and_returns_its_cause() {
    let errors = public_errors();
    assert!(errors.len() > 25, "only {} errors were found", errors.len());
    let names: BTreeSet<&str> = errors.keys().map(|(_, name)| name.as_str()).collect();
    let mut faults = Vec::new();
    for ((folder, name), error) in &errors {
        let place = format!("{}: {name}", error.file.display());
        let is_excepted = CONSTRUCTED_ELSEWHERE.contains(&(folder, name));
        if error.is_non_exhaustive == is_excepted {
            faults.push(format!("{place}: needs either #[non_exhaustive] or an entry in CONSTRUCTED_ELSEWHERE, and not both"));
        }
        let mut causes = error.contents.iter().filter(|held| {
            *held != name && (names.contains(held.as_str()) || held.ends_with("Error"))
        });
        if let (Some(cause), false) = (causes.next(), error.has_source) {
            faults.push(format!("{place}: contains {cause}, but has no source()"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns all public error types, by folder in `crates/` and name.
fn public_errors() -> BTreeMap<(String, String), Declared> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut errors = BTreeMap::new();
    for folder in fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let mut files = Vec::new();
        find_files(&folder.join("src"), &mut files);
        let (mut types, mut sources) = (BTreeMap::new(), BTreeMap::new());
        for file in files {
            let parsed = syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap();
            for item in &parsed.items {
                if let Some((name, declared)) = declared(item, &file) {
                    types.insert((file.clone(), name), declared);
                } else if let Some((name, has_source)) = implemented(item) {
                    sources.insert((file.clone(), name), has_source);
                }
            }
        }
        for ((file, error), has_source) in sources {
            if let Some(declared) = types.remove(&(file, error.clone())) {
                errors.insert((name.to_owned(), error), Declared { has_source, ..declared });
            }
        }
    }
    errors
}

fn find_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            find_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Returns the name and declaration of `item` if it is a public enum or struct.
fn declared(item: &Item, file: &Path) -> Option<(String, Declared)> {
    let (visibility, attributes, name, fields): (_, _, _, Vec<&Fields>) = match item {
        Item::Enum(item) => {
            let fields = item.variants.iter().map(|variant| &variant.fields).collect();
            (&item.vis, &item.attrs, &item.ident, fields)
        }
        Item::Struct(item) => (&item.vis, &item.attrs, &item.ident, vec![&item.fields]),
        _ => return None,
    };
    let mut contents = BTreeSet::new();
    for field in fields.into_iter().flatten() {
        collect_names(&field.ty, &mut contents);
    }
    let is_non_exhaustive =
        attributes.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"));
    let declared =
        Declared { file: file.to_owned(), is_non_exhaustive, contents, has_source: false };
    matches!(visibility, Visibility::Public(_)).then(|| (name.to_string(), declared))
}

/// Returns the type for which `item` implements `Error`, and whether the implementation defines
/// `source`.
fn implemented(item: &Item) -> Option<(String, bool)> {
    let Item::Impl(item) = item else { return None };
    let (path, _) = item.trait_.as_ref()?;
    let Type::Path(implementer) = &*item.self_ty else { return None };
    if path.segments.last()?.ident != "Error" {
        return None;
    }
    let has_source = item
        .items
        .iter()
        .any(|item| matches!(item, syn::ImplItem::Fn(function) if function.sig.ident == "source"));
    Some((implementer.path.segments.last()?.ident.to_string(), has_source))
}

/// Collects the last segment of every path in a type, including its generic arguments.
fn collect_names(of: &Type, names: &mut BTreeSet<String>) {
    let paths: Vec<&syn::Path> = match of {
        Type::Path(of) => vec![&of.path],
        Type::TraitObject(of) => of
            .bounds
            .iter()
            .filter_map(|bound| match bound {
                TypeParamBound::Trait(bound) => Some(&bound.path),
                _ => None,
            })
            .collect(),
        _ => return,
    };
    for segment in paths.into_iter().filter_map(|path| path.segments.last()) {
        names.insert(segment.ident.to_string());
        if let PathArguments::AngleBracketed(arguments) = &segment.arguments {
            for argument in &arguments.args {
                if let syn::GenericArgument::Type(argument) = argument {
                    collect_names(argument, names);
                }
            }
        }
    }
}
