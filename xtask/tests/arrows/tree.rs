//! The modules of a crate and the names used in their code, without tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, Meta, Token, UseTree, Visibility};

/// The segments of a path, from the root of the crate.
pub(crate) type Names = Vec<String>;

/// One module of a crate.
#[derive(Default, Debug)]
pub(crate) struct Module {
    /// The names that `use` imports into the module, and the paths that they refer to.
    imports: BTreeMap<String, Names>,
    /// The modules from which `use` imports all names.
    globs: Vec<Names>,
    /// Every path in the code of the module. Paths that begin with a name in the module's scope are
    /// recorded as paths below the module.
    pub(crate) used: BTreeSet<Names>,
    /// The names that the module defines.
    defined: BTreeSet<String>,
}

/// All modules of a crate, by path.
#[derive(Default, Debug)]
pub(crate) struct Tree(pub(crate) BTreeMap<Names, Module>);

impl Tree {
    /// Reads a crate from its root file.
    pub(crate) fn read(root: &Path) -> Self {
        let mut tree = Self::default();
        tree.read_file(root, root.parent().expect("a file is in a folder"), Vec::new());
        tree
    }

    /// Parses a crate from the text of a root file that contains all modules.
    pub(crate) fn parse(text: &str) -> Self {
        let mut tree = Self::default();
        let file = syn::parse_file(text).expect("the text is Rust");
        tree.add(&file.items, Path::new(""), Vec::new());
        tree
    }

    fn read_file(&mut self, file: &Path, folder: &Path, path: Names) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        self.add(&parsed.items, folder, path);
    }

    /// Adds the module at `path`. The files of its child modules are in `folder`.
    fn add(&mut self, items: &[Item], folder: &Path, path: Names) {
        let mut reader = Reader { path: path.clone(), module: Module::default() };
        for item in items {
            match item {
                Item::Mod(module) if is_for_tests(&module.attrs) => {}
                Item::Mod(module) => self.add_child(module, folder, &path),
                _ => reader.visit_item(item),
            }
        }
        self.0.insert(path, reader.module);
    }

    fn add_child(&mut self, module: &ItemMod, folder: &Path, parent: &[String]) {
        let name = module.ident.to_string();
        let path = below(parent, &name);
        let inside = folder.join(&name);
        match &module.content {
            Some((_, items)) => self.add(items, &inside, path),
            None => self.read_file(&inside.with_extension("rs"), &inside, path),
        }
    }

    /// Returns the module that defines the item with this path. Imported names are followed to
    /// their definition.
    pub(crate) fn module_of(&self, path: &[String]) -> Names {
        self.follow(path, 0)
    }

    fn follow(&self, path: &[String], depth: usize) -> Names {
        let mut at = Names::new();
        for (index, name) in path.iter().enumerate() {
            let child = below(&at, name);
            if self.0.contains_key(&child) {
                at = child;
                continue;
            }
            let rest = path.get(index + 1..).unwrap_or_default();
            let import = self.import(&at, name, depth).filter(|_| depth < 10);
            return match import {
                Some(import) => self.follow(&[import.as_slice(), rest].concat(), depth + 1),
                None => at,
            };
        }
        at
    }

    /// Returns the path that a name refers to in the module `at`, if the module imports that name.
    fn import(&self, at: &[String], name: &str, depth: usize) -> Option<Names> {
        let module = self.0.get(at)?;
        if let Some(import) = module.imports.get(name) {
            return Some(import.clone());
        }
        if module.defined.contains(name) || depth >= 10 {
            return None;
        }
        let has_name = |glob: &&Names| {
            let source = self.0.get(&self.follow(glob, depth + 1));
            source.is_some_and(|it| it.defined.contains(name) || it.imports.contains_key(name))
        };
        module.globs.iter().find(has_name).map(|glob| below(glob, name))
    }
}

fn below(path: &[String], name: &str) -> Names {
    [path, &[name.to_owned()]].concat()
}

/// Returns whether an item with these attributes is compiled only for tests or by a fuzzer.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| needs_test(&condition))
        }
        _ => false,
    })
}

fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        return ["test", "fuzzing"].iter().any(|name| condition.path().is_ident(name));
    };
    let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
    let Ok(conditions) = list.parse_args_with(parse) else { return false };
    match () {
        () if list.path.is_ident("all") => conditions.iter().any(needs_test),
        () if list.path.is_ident("any") => conditions.iter().all(needs_test),
        () => false,
    }
}

/// Returns the attributes of an item that may be test code.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the name that an item defines, if other modules can import items of this kind.
fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Collects the names of one module.
struct Reader {
    path: Names,
    module: Module,
}

impl Reader {
    /// Returns the absolute path of a name, starting at the root of the crate.
    fn absolute(&self, path: &[String]) -> Option<Names> {
        let ups = path.iter().take_while(|name| *name == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path.get(1..)?.to_vec()),
            "self" => Some([&self.path, path.get(1..)?].concat()),
            "super" => {
                let base = self.path.get(..self.path.len().checked_sub(ups)?)?;
                Some([base, path.get(ups..)?].concat())
            }
            _ => Some([&self.path, path].concat()),
        }
    }

    fn note(&mut self, path: &[String]) {
        if let Some(path) = self.absolute(path) {
            self.module.used.insert(path);
        }
    }

    fn import(&mut self, tree: &UseTree, before: &mut Names) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before);
                before.pop();
            }
            UseTree::Name(name) => self.import_as(before, &name.ident.to_string(), None),
            UseTree::Rename(rename) => {
                let known = Some(rename.rename.to_string());
                self.import_as(before, &rename.ident.to_string(), known);
            }
            UseTree::Glob(_) => {
                self.note(before);
                let path = self.absolute(before);
                self.module.globs.extend(path);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, before)),
        }
    }

    fn import_as(&mut self, before: &[String], name: &str, known: Option<String>) {
        let path = match name {
            "self" => before.to_vec(),
            name => below(before, name),
        };
        let Some(known) = known.or_else(|| path.last().cloned()) else { return };
        // The name of another crate is ignored, even if a module in this crate has the same name.
        let Some(absolute) = self.absolute(&path) else { return };
        self.module.used.insert(absolute.clone());
        if absolute != below(&self.path, &known) {
            self.module.imports.insert(known, absolute);
        }
    }

    /// Records the paths in the tokens of a macro.
    fn scan(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Names::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.note(&core::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.note(&core::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.scan(group.stream());
                    }
                }
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            self.module.defined.extend(name(item));
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            self.import(&item.tree, &mut Names::new());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Names = path.segments.iter().map(|part| part.ident.to_string()).collect();
            self.note(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.scan(call.tokens.clone());
    }

    /// `pub(in crate::a)` does not count as a use of `a`.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    /// A link in documentation does not count as a use either.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}
