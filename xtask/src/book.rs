//! `cargo xtask book`: an mdbook preprocessor that adds the documents of the source tree to which
//! the book links, so that no link leads outside the rendered book.
//!
//! A document becomes a page in `documents/`, at the end of the book, and so do the documents that
//! it links to in turn. Pictures are embedded. A link to any other file is replaced with its text.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};

use crate::command::root;

/// The folder of the book's own pages.
const SOURCE: &str = "docs/book/src";
/// The folder for the added pages, inside the folder of the book's own pages.
const DOCUMENTS: &str = "documents";

/// The arguments that mdbook passes to its preprocessors.
#[derive(clap::Args)]
pub(crate) struct BookOptions {
    /// "supports RENDERER" asks whether RENDERER is supported; all renderers are
    #[arg(value_name = "supports RENDERER")]
    query: Vec<String>,
}

/// Reads the book from standard input, and writes the completed book to standard output.
pub(crate) fn run(options: &BookOptions) -> Result<(), String> {
    if !options.query.is_empty() {
        return Ok(());
    }
    let mut input = String::new();
    io::stdin().read_to_string(&mut input).map_err(|error| format!("standard input: {error}"))?;
    let book = complete(&input, &root())?;
    io::stdout().write_all(book.to_string().as_bytes()).map_err(|error| error.to_string())
}

/// Returns the book from mdbook's message, with all documents added.
fn complete(message: &str, root: &Path) -> Result<Value, String> {
    let message: Value =
        serde_json::from_str(message).map_err(|error| format!("mdbook's message: {error}"))?;
    let mut book = message.get(1).cloned().ok_or("mdbook's message has no book")?;
    let mut tree = Tree { root, pages: BTreeMap::new(), waiting: BTreeSet::new() };
    // Before mdbook 0.5 this field was named "sections".
    let list = if book.get("items").is_some() { "items" } else { "sections" };
    let items = book[list].as_array_mut().ok_or("mdbook's book has no chapters")?;
    items.iter_mut().for_each(|item| tree.rewrite_chapter(item));
    tree.add_documents()?;
    items.push(json!({ "PartTitle": "Documents of the source tree" }));
    let numbered = items.iter().filter(|item| item["Chapter"]["number"].is_array()).count();
    items.extend(tree.chapters(numbered + 1));
    Ok(book)
}

/// The documents to add to the book.
struct Tree<'a> {
    root: &'a Path,
    /// The text of each document, by its path in the repository.
    pages: BTreeMap<String, String>,
    /// The documents that a page links to and that are not in `pages` yet.
    waiting: BTreeSet<String>,
}

impl Tree<'_> {
    /// Rewrites the links in a chapter and its subchapters.
    fn rewrite_chapter(&mut self, item: &mut Value) {
        let Some(chapter) = item.get_mut("Chapter") else { return };
        if let Some(path) = chapter["source_path"].as_str() {
            let page = format!("{SOURCE}/{path}");
            let text = chapter["content"].as_str().unwrap_or_default();
            chapter["content"] = self.rewritten(&page, text).into();
        }
        if let Some(children) = chapter["sub_items"].as_array_mut() {
            children.iter_mut().for_each(|child| self.rewrite_chapter(child));
        }
    }

    /// Reads the waiting documents, and the documents that they link to.
    fn add_documents(&mut self) -> Result<(), String> {
        while let Some(path) = self.waiting.pop_first() {
            let text = std::fs::read_to_string(self.root.join(&path))
                .map_err(|error| format!("{path}: {error}"))?;
            // Inserted before its links are followed, since a document may link to itself.
            self.pages.insert(path.clone(), String::new());
            let text = self.rewritten(&path, &text);
            self.pages.insert(path, text);
        }
        Ok(())
    }

    /// Returns a chapter for each document, numbered from `first`. Documents in a folder with a
    /// README.md are subchapters of that README.md.
    fn chapters(&self, first: usize) -> Vec<Value> {
        let mut chapters: Vec<(&String, Value)> = Vec::new();
        let mut pages: Vec<_> = self.pages.iter().collect();
        pages.sort_by_key(|(path, _)| (folder_of(path), !path.ends_with("README.md"), *path));
        for (path, text) in pages {
            let index = format!("{}/README.md", folder_of(path));
            let parent = chapters.iter().position(|(parent, _)| **parent == index);
            let number = first + parent.unwrap_or(chapters.len());
            let siblings =
                parent.and_then(|at| chapters[at].1["Chapter"]["sub_items"].as_array_mut());
            match siblings {
                Some(siblings) => {
                    siblings.push(chapter(path, text, &[number, siblings.len() + 1]));
                }
                None => chapters.push((path, chapter(path, text, &[number]))),
            }
        }
        chapters.into_iter().map(|(_, chapter)| chapter).collect()
    }

    /// Returns the text of `page`, given as a path in the repository, with links that stay inside
    /// the book.
    fn rewritten(&mut self, page: &str, text: &str) -> String {
        let mut result = String::new();
        let mut end = 0;
        for link in links(text) {
            let (path, fragment) = split_fragment(&text[link.target.clone()]);
            let file = join(folder_of(page), path);
            if path.is_empty() || path.contains(':') {
                continue;
            }
            let label = &text[link.label.clone()];
            result.push_str(&text[end..link.whole.start]);
            end = link.whole.end;
            match self.target(page, &file, link.is_picture) {
                Some(target) => {
                    let mark = if link.is_picture { "!" } else { "" };
                    result.push_str(&format!("{mark}[{label}]({target}{fragment})"));
                }
                None => result.push_str(label),
            }
        }
        result + &text[end..]
    }

    /// Returns the target of a link from `page` to `file`; `None` if `file` is not in the book.
    fn target(&mut self, page: &str, file: &str, is_picture: bool) -> Option<String> {
        if is_picture {
            return embedded(&self.root.join(file));
        }
        if !file.ends_with(".md") {
            return None;
        }
        if let Some(own) = file.strip_prefix(&format!("{SOURCE}/")) {
            return Some(relative(&in_book(page), own));
        }
        if !self.pages.contains_key(file) {
            self.waiting.insert(file.to_owned());
        }
        Some(relative(&in_book(page), &in_book(file)))
    }
}

/// Returns a document as a chapter. The chapter's number determines its depth in the table of
/// contents.
fn chapter(path: &str, text: &str, number: &[usize]) -> Value {
    let title = text.lines().find_map(|line| line.strip_prefix("# "));
    let name = title.filter(|_| path != "README.md").unwrap_or(path).replace('`', "");
    json!({ "Chapter": {
        "name": name,
        "content": text,
        "number": number,
        "sub_items": [],
        "path": in_book(path),
        "source_path": null,
        "parent_names": [],
    }})
}

/// Returns the path of a document in the rendered book. mdbook renames README.md.
fn in_book(document: &str) -> String {
    let own = document.strip_prefix(&format!("{SOURCE}/"));
    let path = own.map_or_else(|| format!("{DOCUMENTS}/{document}"), str::to_owned);
    path.strip_suffix("README.md").map_or(path.clone(), |folder| format!("{folder}index.md"))
}

/// A link in a text, with the positions of its parts.
struct Link {
    whole: Range<usize>,
    label: Range<usize>,
    target: Range<usize>,
    is_picture: bool,
}

/// Returns the links in the prose of a document.
fn links(text: &str) -> Vec<Link> {
    let code = code(text);
    let middles = text.match_indices("](").map(|(at, _)| at);
    let middles = middles.filter(|at| !code.iter().any(|range| range.contains(at)));
    middles.filter_map(|middle| link(text, middle)).collect()
}

/// Returns the link whose label ends at `middle`.
fn link(text: &str, middle: usize) -> Option<Link> {
    let mut depth = 0;
    let brackets = text[..middle].bytes().enumerate().rev();
    let (start, _) = brackets.into_iter().find(|(_, byte)| {
        depth += match byte {
            b']' => 1,
            b'[' => -1,
            _ => 0,
        };
        depth < 0
    })?;
    let target = middle + 2;
    let end = target + text[target..].find(')')?;
    let is_picture = text[..start].ends_with('!');
    Some(Link {
        whole: start - usize::from(is_picture)..end + 1,
        label: start + 1..middle,
        target: target..end,
        is_picture,
    })
}

/// Returns the ranges of a document's code blocks.
fn code(text: &str) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let (mut at, mut is_fenced) = (0, false);
    for line in text.split_inclusive('\n') {
        is_fenced ^= line.starts_with("```");
        let end = at + line.len();
        // An indented line that continues a list is prose, but rarely contains links.
        if is_fenced || line.starts_with("    ") {
            blocks.push(at..end);
        }
        at = end;
    }
    blocks
}

/// Returns the path part of a link target, and the fragment including `#`.
fn split_fragment(target: &str) -> (&str, &str) {
    target.split_at(target.find('#').unwrap_or(target.len()))
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Resolves `path` relative to `folder`, without `.` and `..`.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns a link from the page `from` to the page `to`.
fn relative(from: &str, to: &str) -> String {
    "../".repeat(from.matches('/').count()) + to
}

/// Returns a picture as a data URL; `None` if it does not exist.
fn embedded(file: &Path) -> Option<String> {
    let content = std::fs::read(file).ok()?;
    let kind = match file.extension()?.to_str()? {
        "svg" => "svg+xml",
        other => other,
    };
    Some(format!("data:image/{kind};base64,{}", base64(&content)))
}

/// Returns the base64 encoding of `content` (RFC 4648 §4).
fn base64(content: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(content.len().div_ceil(3) * 4);
    for group in content.chunks(3) {
        let bytes = [0, 1, 2].map(|at| group.get(at).copied().unwrap_or_default());
        let bits = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            let is_padding = digit as usize > group.len();
            text.push(if is_padding { '=' } else { DIGITS[value as usize].into() });
        }
    }
    text
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
