//! A module of a crate, with its submodules and public items.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use quote::ToTokens;
use syn::{
    Attribute, Fields, ImplItem, Item, ItemEnum, ItemImpl, ItemStruct, ItemTrait, TraitItem, Type,
    UseTree, Visibility,
};

use super::text;

/// A module: the items of a file, and its submodules.
pub(super) struct Module {
    /// The module's name if the module is public, and therefore part of the paths that users write.
    public_name: Option<String>,
    items: Vec<Item>,
    modules: Vec<Module>,
}

impl Module {
    /// Reads `file`, which is a crate's root if `is_root`, and the files of its modules.
    pub(super) fn read(file: &Path, is_root: bool) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let source = fs::read_to_string(file).map_err(|error| failed(&error))?;
        let source = syn::parse_file(&source).map_err(|error| failed(&error))?;
        let folder = if is_root { file.with_file_name("") } else { file.with_extension("") };
        Self::of(None, source.items, &folder)
    }

    fn of(public_name: Option<String>, all: Vec<Item>, folder: &Path) -> Result<Self, String> {
        let (mut items, mut modules) = (Vec::new(), Vec::new());
        for item in all {
            let Item::Mod(module) = item else {
                items.push(item);
                continue;
            };
            if is_for_tests(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let public_name = is_public(&module.vis).then(|| name.clone());
            let mut inner = match module.content {
                Some((_, items)) => Self::of(None, items, &folder.join(&name))?,
                None => Self::read(&folder.join(format!("{name}.rs")), false)?,
            };
            inner.public_name = public_name;
            modules.push(inner);
        }
        Ok(Self { public_name, items, modules })
    }

    /// Returns the names of all public types and traits.
    pub(super) fn types(&self) -> BTreeSet<String> {
        let named = |item: &Item| match item {
            Item::Struct(it) if is_public(&it.vis) => Some(it.ident.to_string()),
            Item::Enum(it) if is_public(&it.vis) => Some(it.ident.to_string()),
            Item::Trait(it) if is_public(&it.vis) => Some(it.ident.to_string()),
            _ => None,
        };
        let inner = self.modules.iter().flat_map(Self::types);
        self.items.iter().filter_map(named).chain(inner).collect()
    }

    /// Adds a line for every public item of this module and of its submodules. `path` is the path
    /// of the parent module.
    pub(super) fn describe(
        &self,
        path: &str,
        types: &BTreeSet<String>,
        lines: &mut BTreeSet<String>,
    ) {
        let path = match &self.public_name {
            Some(name) => format!("{path}{name}::"),
            None => path.to_owned(),
        };
        for item in &self.items {
            for line in describe(item, types) {
                lines.insert(format!("{path}{line}"));
            }
        }
        for module in &self.modules {
            module.describe(&path, types, lines);
        }
    }
}

fn describe(item: &Item, types: &BTreeSet<String>) -> Vec<String> {
    match item {
        Item::Struct(it) if is_public(&it.vis) => of_struct(it),
        Item::Enum(it) if is_public(&it.vis) => of_enum(it),
        Item::Trait(it) if is_public(&it.vis) => of_trait(it),
        Item::Impl(it) => of_impl(it, types),
        Item::Fn(it) if is_public(&it.vis) => vec![text::of(&it.sig)],
        Item::Const(it) if is_public(&it.vis) => {
            vec![format!("const {}: {}", it.ident, text::of(&it.ty))]
        }
        Item::Type(it) if is_public(&it.vis) => {
            vec![format!("type {} = {}", it.ident, text::of(&it.ty))]
        }
        Item::Use(it) if is_public(&it.vis) => exports(&it.tree, ""),
        _ => Vec::new(),
    }
}

fn of_struct(item: &ItemStruct) -> Vec<String> {
    let name = item.ident.to_string();
    let mut lines =
        vec![format!("struct {name}{}{}", text::of(&item.generics), marks(&item.attrs))];
    lines.extend(fields(&name, &item.fields, is_public));
    lines
}

fn of_enum(item: &ItemEnum) -> Vec<String> {
    let name = item.ident.to_string();
    let mut lines = vec![format!("enum {name}{}{}", text::of(&item.generics), marks(&item.attrs))];
    for variant in &item.variants {
        let variant_name = format!("{name}::{}", variant.ident);
        lines.push(format!("{variant_name}{}", marks(&variant.attrs)));
        lines.extend(fields(&variant_name, &variant.fields, |_| true));
    }
    lines
}

fn of_trait(item: &ItemTrait) -> Vec<String> {
    let name = &item.ident;
    let bounds = text::of(&item.supertraits);
    let mut lines = vec![format!("trait {name}{}: {bounds}", text::of(&item.generics))];
    lines.extend(item.items.iter().map(|part| match part {
        TraitItem::Fn(it) if it.default.is_some() => {
            format!("{name}: {} {{ … }}", text::of(&it.sig))
        }
        TraitItem::Fn(it) => format!("{name}: {}", text::of(&it.sig)),
        TraitItem::Type(it) => {
            let bounds = text::of(&it.bounds);
            let of_type = format!("{name}: type {}{}", it.ident, text::of(&it.generics));
            if bounds.is_empty() { of_type } else { format!("{of_type}: {bounds}") }
        }
        other => format!("{name}: {}", text::of(other)),
    }));
    lines
}

fn of_impl(item: &ItemImpl, types: &BTreeSet<String>) -> Vec<String> {
    let is_ours = |name: Option<String>| name.is_some_and(|name| types.contains(&name));
    let of = text::of(&item.self_ty);
    if let Some((path, _)) = &item.trait_ {
        let trait_name = path.segments.last().map(|segment| segment.ident.to_string());
        return match is_ours(name_of(&item.self_ty)) || is_ours(trait_name) {
            true => vec![format!("impl {} for {of}", text::of(path))],
            false => Vec::new(),
        };
    }
    if !is_ours(name_of(&item.self_ty)) {
        return Vec::new();
    }
    let public = item.items.iter().filter_map(|part| match part {
        ImplItem::Fn(it) if is_public(&it.vis) => Some(format!("{of}: {}", text::of(&it.sig))),
        ImplItem::Const(it) if is_public(&it.vis) => {
            Some(format!("{of}: const {}: {}", it.ident, text::of(&it.ty)))
        }
        _ => None,
    });
    public.collect()
}

/// Returns a line for every field that users can name.
fn fields(of: &str, fields: &Fields, is_shown: impl Fn(&Visibility) -> bool) -> Vec<String> {
    let shown = fields.iter().enumerate().filter(|(_, field)| is_shown(&field.vis));
    let line = |(index, field): (usize, &syn::Field)| {
        let name = field.ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string);
        format!("{of}.{name}: {}", text::of(&field.ty))
    };
    shown.map(line).collect()
}

/// Returns the names that a `pub use` exports: with the path if an item comes from another crate,
/// otherwise only the name.
fn exports(tree: &UseTree, path: &str) -> Vec<String> {
    let line = |name: &str| match path.starts_with("clearway_") || path.is_empty() {
        true => format!("export {path}{name}"),
        false => format!("export {name}"),
    };
    match tree {
        UseTree::Path(it) => exports(&it.tree, &format!("{path}{}::", it.ident)),
        UseTree::Group(it) => it.items.iter().flat_map(|tree| exports(tree, path)).collect(),
        UseTree::Name(it) => vec![line(&it.ident.to_string())],
        UseTree::Rename(it) => vec![line(&format!("{} as {}", it.ident, it.rename))],
        UseTree::Glob(_) => vec![line("*")],
    }
}

/// Returns the attributes that matter to users.
fn marks(attributes: &[Attribute]) -> String {
    let is_seen = |it: &&Attribute| {
        ["derive", "non_exhaustive", "must_use"].iter().any(|name| it.path().is_ident(name))
    };
    attributes
        .iter()
        .filter(is_seen)
        .map(|it| format!(" {}", text::of(&it.meta.to_token_stream())))
        .collect()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns whether an item is compiled only for tests or fuzz targets.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    let is_one = |it: &Attribute| {
        let condition = it.meta.to_token_stream().to_string();
        it.path().is_ident("cfg")
            && ["(test)", "(fuzzing)"].iter().any(|only| condition.replace(' ', "").ends_with(only))
    };
    attributes.iter().any(is_one)
}

/// Returns the last segment of a type's path.
fn name_of(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Reference(reference) => name_of(&reference.elem),
        _ => None,
    }
}
