//! Mutants that are compiled together, each behind a runtime switch (mutant schemata).

use core::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use proc_macro2::LineColumn;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::sample::{Genre, Mutant, Place};

/// Module that is added to each mutated crate. The environment variable `MUTANT` selects the active
/// mutant, and a test's child processes inherit it. If `MUTANTS_REACHED` is set to a folder, each
/// mutant that is reached creates a file there.
pub(super) const MODULE: &str = r#"
#[doc(hidden)]
pub mod mutant_switch {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static ACTIVE: OnceLock<(usize, String)> = OnceLock::new();
    static REACHED: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];

    pub fn is(number: usize) -> bool {
        let (active, folder) = ACTIVE.get_or_init(|| {
            let number = std::env::var("MUTANT").ok().and_then(|number| number.parse().ok());
            (number.unwrap_or(usize::MAX), std::env::var("MUTANTS_REACHED").unwrap_or_default())
        });
        if !folder.is_empty() && !REACHED[number % 4096].swap(true, Ordering::Relaxed) {
            let _ = std::fs::File::create(format!("{folder}/{number}"));
        }
        *active == number
    }
}
"#;

/// A change to a file's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Edit {
    /// Index of the edit's mutant in the list.
    pub(super) place: usize,
    /// Range of bytes to replace.
    range: Range<usize>,
    /// Replacement text, in pieces.
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    New(String),
    /// A range of bytes of the original file, with the edits inside it applied.
    Old(Range<usize>),
}

impl Edit {
    /// Returns whether this edit is nested in an edit of `range`. Of two edits with the same range,
    /// the first one contains the second.
    fn is_within(&self, range: &Range<usize>) -> bool {
        match self.range.is_empty() {
            true => range.start < self.range.start && self.range.end < range.end,
            false => range.start <= self.range.start && self.range.end <= range.end,
        }
    }
}

/// Position of an edit in the edited text: the index of its mutant, and its range of bytes.
pub(super) type Mark = (usize, Range<usize>);

/// A source file to be mutated.
pub(super) struct Source {
    text: String,
    /// Byte offset of each line.
    lines: Vec<usize>,
    found: Found,
}

/// Expressions that can be mutated, by the start position of the mutant's span.
#[derive(Default)]
struct Found {
    /// Ranges of the left operand, the right operand and the whole expression.
    binaries: BTreeMap<Place, [PlaceRange; 3]>,
    /// Ranges of the operand and the whole expression.
    unaries: BTreeMap<Place, [PlaceRange; 2]>,
    /// End position of the arm's pattern.
    arms: BTreeMap<Place, Place>,
    guards: BTreeMap<Place, PlaceRange>,
    fields: BTreeMap<Place, Field>,
    /// Range of the match's scrutinee, by the start position of the arm.
    matched: BTreeMap<Place, PlaceRange>,
    /// All `const fn`s in the file.
    constants: Vec<Constant>,
}

/// A `const fn`. Its mutants remove the keyword `const`, because a switch is not `const`.
struct Constant {
    name: String,
    keyword: PlaceRange,
    body: PlaceRange,
}

type PlaceRange = (Place, Place);

struct Field {
    name: String,
    /// Range of the whole field.
    all: PlaceRange,
    /// Range of the field's value.
    value: PlaceRange,
    /// Range of the base from which the other fields are taken.
    base: PlaceRange,
}

fn place(at: LineColumn) -> Place {
    Place { line: at.line, column: at.column + 1 }
}

fn places(of: &impl Spanned) -> PlaceRange {
    let span = of.span();
    (place(span.start()), place(span.end()))
}

impl<'ast> Visit<'ast> for Found {
    fn visit_expr_binary(&mut self, expression: &'ast syn::ExprBinary) {
        let operands = [places(&*expression.left), places(&*expression.right), places(expression)];
        self.binaries.insert(places(&expression.op).0, operands);
        visit::visit_expr_binary(self, expression);
    }

    fn visit_expr_unary(&mut self, expression: &'ast syn::ExprUnary) {
        let operand = [places(&*expression.expr), places(expression)];
        self.unaries.insert(places(&expression.op).0, operand);
        visit::visit_expr_unary(self, expression);
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        for arm in &expression.arms {
            self.matched.insert(places(arm).0, places(&*expression.expr));
        }
        visit::visit_expr_match(self, expression);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.note_function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note_function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let start = places(arm).0;
        match &arm.pat {
            syn::Pat::Guard(guarded) => {
                let guard = places(&*guarded.guard);
                self.guards.insert(guard.0, guard);
                // Inserted before the existing match guard.
                self.arms.insert(start, guard.0);
            }
            pattern => {
                self.arms.insert(start, places(pattern).1);
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        if let Some(base) = &expression.rest {
            for field in &expression.fields {
                let syn::Member::Named(name) = &field.member else { continue };
                let (all, value) = (places(field), places(&field.expr));
                let found = Field { name: name.to_string(), all, value, base: places(&**base) };
                self.fields.insert(all.0, found);
            }
        }
        visit::visit_expr_struct(self, expression);
    }
}

impl Found {
    fn note_function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if let Some(keyword) = &signature.constness {
            let (name, body) = (signature.ident.to_string(), places(block));
            self.constants.push(Constant { name, keyword: places(keyword), body });
        }
    }
}

impl Source {
    /// Parses a source file.
    ///
    /// # Errors
    /// Returns an error if the text is not valid Rust.
    pub(super) fn parse(text: String) -> Result<Self, syn::Error> {
        let mut found = Found::default();
        found.visit_file(&syn::parse_file(&text)?);
        let next = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = core::iter::once(0).chain(next).collect();
        Ok(Self { text, lines, found })
    }

    /// Returns the byte offset of a line and column.
    fn offset(&self, place: Place) -> Option<usize> {
        let line = *self.lines.get(place.line.checked_sub(1)?)?;
        let rest = self.text.get(line..)?;
        let mut characters = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
        Some(line + characters.nth(place.column.checked_sub(1)?)?)
    }

    fn range(&self, (start, end): PlaceRange) -> Option<Range<usize>> {
        Some(self.offset(start)?..self.offset(end)?)
    }

    /// Returns the text with only this mutant applied.
    pub(super) fn mutated(&self, mutant: &Mutant) -> Option<String> {
        let range = self.range((mutant.span.start, mutant.span.end))?;
        let (before, after) = (self.text.get(..range.start)?, self.text.get(range.end..)?);
        Some(format!("{before}{}{after}", mutant.replacement))
    }

    /// Returns the edit that adds this mutant behind a switch with the number `place`. Returns
    /// `None` if its expression was not found, for example because it is in a macro.
    pub(super) fn edit(&self, mutant: &Mutant, place: usize) -> Option<Edit> {
        let is_on = format!("crate::mutant_switch::is({place})");
        let (start, replacement) = (mutant.span.start, &mutant.replacement);
        let found = &self.found;
        let choice = |range: Range<usize>, on: Vec<Piece>, before: &str, off: Range<usize>| {
            let mut pieces = vec![Piece::New(format!("{before}(if {is_on} {{ "))];
            pieces.extend(on);
            pieces.push(Piece::New(" } else { ".to_owned()));
            pieces.extend([Piece::Old(off), Piece::New(" })".to_owned())]);
            Edit { place, range, pieces }
        };
        let insertion = |at: usize, text: String| {
            let pieces = vec![Piece::New(text)];
            Edit { place, range: at..at, pieces }
        };
        Some(match mutant.genre {
            Genre::FnValue => {
                let text = format!("if {is_on} {{ return {replacement}; }} ");
                insertion(self.offset(start)?, text)
            }
            Genre::BinaryOperator => {
                let [left, right, all] = *found.binaries.get(&start)?;
                let (left, right) = (self.range(left)?, self.range(right)?);
                let operator = Piece::New(format!(" {replacement} "));
                let (all, on) =
                    (self.range(all)?, vec![Piece::Old(left), operator, Piece::Old(right)]);
                choice(all.clone(), on, "", all)
            }
            Genre::UnaryOperator => {
                let [operand, all] = *found.unaries.get(&start)?;
                let on = vec![Piece::New(replacement.clone()), Piece::Old(self.range(operand)?)];
                let all = self.range(all)?;
                choice(all.clone(), on, "", all)
            }
            Genre::MatchArm => {
                let end = *found.arms.get(&start)?;
                let text = match found.guards.contains_key(&end) {
                    true => format!("!{is_on} && "),
                    false => format!(" if !{is_on}"),
                };
                insertion(self.offset(end)?, text)
            }
            Genre::MatchArmGuard => {
                let guard = self.range(*found.guards.get(&start)?)?;
                choice(guard.clone(), vec![Piece::New(replacement.clone())], "", guard)
            }
            Genre::StructField => {
                let field = found.fields.get(&start)?;
                let base = Piece::Old(self.range(field.base)?);
                let on = vec![base, Piece::New(format!(".{}", field.name))];
                let before = format!("{}: ", field.name);
                choice(self.range(field.all)?, on, &before, self.range(field.value)?)
            }
        })
    }

    /// Returns the other edits that this mutant needs: one removes `const` from its function, and
    /// one marks the scrutinee, where the compiler reports a missing arm.
    pub(super) fn further_edits(&self, mutant: &Mutant, place: usize) -> Vec<Edit> {
        let start = mutant.span.start;
        let mut edits = Vec::new();
        if let Some(constant) = self.constant(mutant)
            && let Some(range) = self.range(constant.keyword)
        {
            edits.push(Edit { place, range, pieces: Vec::new() });
        }
        if mutant.genre == Genre::MatchArm
            && let Some(range) = self.found.matched.get(&start).and_then(|all| self.range(*all))
        {
            edits.push(Edit { place, pieces: vec![Piece::Old(range.clone())], range });
        }
        edits
    }

    /// Returns the name of the `const fn` that contains the mutant.
    pub(super) fn constant_name(&self, mutant: &Mutant) -> Option<&str> {
        self.constant(mutant).map(|constant| constant.name.as_str())
    }

    fn constant(&self, mutant: &Mutant) -> Option<&Constant> {
        let start = mutant.span.start;
        let is_around = |constant: &&Constant| constant.body.0 <= start && start <= constant.body.1;
        self.found.constants.iter().filter(is_around).max_by_key(|constant| constant.body.0)
    }

    /// Returns the text with these edits applied, and the edits' positions. A nested edit can have
    /// several positions.
    pub(super) fn with(&self, edits: &[Edit]) -> (String, Vec<Mark>) {
        let mut order: Vec<&Edit> = edits.iter().collect();
        order.sort_by_key(|edit| {
            (edit.range.start, !edit.range.is_empty(), Reverse(edit.range.end))
        });
        let (mut text, mut marks) = (String::new(), Vec::new());
        self.render(0..self.text.len(), &order, &mut text, &mut marks);
        (text, marks)
    }

    /// Appends this part of the file with these edits applied. The edits must be sorted.
    fn render(
        &self,
        range: Range<usize>,
        edits: &[&Edit],
        text: &mut String,
        marks: &mut Vec<Mark>,
    ) {
        let (mut at, mut rest) = (range.start, edits);
        while let Some((first, others)) = rest.split_first() {
            let count = others.iter().take_while(|edit| edit.is_within(&first.range)).count();
            let (inner, next) = others.split_at(count);
            rest = next;
            text.push_str(self.text.get(at..first.range.start).unwrap_or_default());
            let start = text.len();
            for piece in &first.pieces {
                match piece {
                    Piece::New(new) => text.push_str(new),
                    Piece::Old(old) => {
                        let within = inner.iter().filter(|edit| edit.is_within(old)).copied();
                        self.render(old.clone(), &within.collect::<Vec<_>>(), text, marks);
                    }
                }
            }
            marks.push((first.place, start..text.len()));
            at = first.range.end;
        }
        text.push_str(self.text.get(at..range.end).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::sample::Span;

    const CODE: &str = "\
fn f(é: u8, b: bool) -> bool {
    match é {
        0 => !b,
        n if n > 5 => n * 2 < 100 && b,
        _ => S { d: é, ..S::default() }.d == 3,
    }
}
";

    fn mutant(genre: Genre, part: &str, replacement: &str) -> Mutant {
        let start = CODE.find(part).unwrap();
        let place = |offset: usize| {
            let before = &CODE[..offset];
            let line = before.rfind('\n').map_or(before, |at| &before[at + 1..]);
            Place { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 }
        };
        Mutant {
            name: String::new(),
            package: String::new(),
            file: "f.rs".into(),
            genre,
            span: Span { start: place(start), end: place(start + part.len()) },
            replacement: replacement.to_owned(),
        }
    }

    /// Returns the code with these mutants applied.
    fn with(mutants: &[Mutant]) -> (String, Vec<Mark>) {
        let source = Source::parse(CODE.to_owned()).unwrap();
        let edits = mutants.iter().enumerate().map(|(place, mutant)| source.edit(mutant, place));
        let (text, marks) = source.with(&edits.map(Option::unwrap).collect::<Vec<_>>());
        syn::parse_file(&text).unwrap();
        (text, marks)
    }

    fn short(text: &str) -> String {
        text.replace("crate::mutant_switch::is", "ON")
    }

    #[test]
    fn each_genre_becomes_code_with_a_switch() {
        let whole = "match é {
        0 => !b,
        n if n > 5 => n * 2 < 100 && b,
        _ => S { d: é, ..S::default() }.d == 3,
    }";
        let cases = [
            (Genre::FnValue, whole, "true", "{\n    if ON { return true; } match é {"),
            (
                Genre::BinaryOperator,
                "<",
                "==",
                "(if ON { n * 2 == 100 } else { n * 2 < 100 }) && b",
            ),
            (
                Genre::BinaryOperator,
                "&&",
                "||",
                "=> (if ON { n * 2 < 100 || b } else { n * 2 < 100 && b }),",
            ),
            (Genre::UnaryOperator, "!", "", "0 => (if ON { b } else { !b }),"),
            (Genre::MatchArm, "0 => !b,", "", "0 if !ON => !b,"),
            (Genre::MatchArm, "n if n > 5 => n * 2 < 100 && b,", "", "n if !ON && n > 5 =>"),
            (Genre::MatchArmGuard, "n > 5", "true", "n if (if ON { true } else { n > 5 }) =>"),
            (
                Genre::StructField,
                "d: é",
                "",
                "S { d: (if ON { S::default().d } else { é }), ..S::default() }",
            ),
        ];
        for (genre, part, replacement, expected) in cases {
            let text = short(&with(&[mutant(genre, part, replacement)]).0).replace("ON(0)", "ON");
            assert!(text.contains(expected), "{genre:?} {part}: {text}");
        }
    }

    #[test]
    fn mutants_within_others_and_in_the_same_place_are_all_there() {
        let mutants = [
            mutant(Genre::BinaryOperator, "<", "=="),
            mutant(Genre::BinaryOperator, "&&", "||"),
            mutant(Genre::BinaryOperator, "<", "<="),
            mutant(Genre::MatchArm, "n if n > 5 => n * 2 < 100 && b,", ""),
            mutant(Genre::MatchArmGuard, "n > 5", "false"),
        ];
        let (text, marks) = with(&mutants);
        let less =
            "(if ON(0) { n * 2 == 100 } else { (if ON(2) { n * 2 <= 100 } else { n * 2 < 100 }) })";
        let both = format!("(if ON(1) {{ {less} || b }} else {{ {less} && b }})");
        let guard = "!ON(3) && (if ON(4) { false } else { n > 5 })";
        assert!(short(&text).contains(&format!("n if {guard} => {both},")), "{text}");
        for (place, range) in &marks {
            assert!(text[range.clone()].contains(&format!("is({place})")));
        }
        // The comparison appears twice, and so do both of its mutants.
        let places: Vec<usize> = marks.iter().map(|(place, _)| *place).collect();
        assert_eq!(places, [3, 4, 2, 0, 2, 0, 1]);
    }

    #[test]
    fn one_mutant_by_itself_is_the_code_that_was_asked_for() {
        let source = Source::parse(CODE.to_owned()).unwrap();
        let text = source.mutated(&mutant(Genre::BinaryOperator, "==", "!=")).unwrap();
        assert_eq!(text, CODE.replace("==", "!="));
    }
}
