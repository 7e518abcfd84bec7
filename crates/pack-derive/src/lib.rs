//! The derive macro `Pack`, documented in `clearway_units::packed`.
//!
//! It parses definitions without `syn`: only the names of fields are needed, and every user of the
//! transport compiles this crate.

use core::iter::Peekable;

use proc_macro::token_stream::IntoIter;
use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Implements `clearway_units::packed::Pack` for a struct or an enum.
#[proc_macro_derive(Pack)]
pub fn derive_pack(definition: TokenStream) -> TokenStream {
    let code = match Definition::parse(definition) {
        Ok(definition) => definition.implementation(),
        Err(reason) => format!("::core::compile_error!({reason:?});"),
    };
    code.parse().expect("the generated code is valid Rust")
}

type Tokens = Peekable<IntoIter>;

/// A struct, or a variant of an enum.
struct Variant {
    /// The path of the struct or variant in the generated code.
    path: String,
    /// The field names, or numbers if the fields have no names.
    fields: Vec<String>,
}

enum Shape {
    Struct(Variant),
    Enum(Vec<Variant>),
}

struct Definition {
    name: String,
    /// The names of the type parameters.
    parameters: Vec<String>,
    shape: Shape,
}

impl Definition {
    fn parse(definition: TokenStream) -> Result<Self, &'static str> {
        let mut tokens = definition.into_iter().peekable();
        skip_attributes_and_visibility(&mut tokens);
        let keyword = tokens.next().map(|token| token.to_string());
        let name = tokens.next().map(|token| token.to_string()).unwrap_or_default();
        let mut parameters = Vec::new();
        if tokens.next_if(|token| is(token, '<')).is_some() {
            while let Some(token) = tokens.next_if(|token| !is(token, '>')) {
                match token {
                    TokenTree::Ident(parameter) => parameters.push(parameter.to_string()),
                    token if is(&token, ',') => {}
                    _ => return Err("cannot derive Pack: all parameters must be plain types"),
                }
            }
            tokens.next();
        }
        let body = match tokens.next() {
            Some(TokenTree::Group(body)) => Some(body),
            Some(token) if is(&token, ';') => None,
            _ => return Err("cannot derive Pack for a definition with bounds"),
        };
        let shape = match keyword.as_deref() {
            Some("struct") => Shape::Struct(Variant::new("Self".to_owned(), body)),
            Some("enum") => Shape::Enum(variants(body)?),
            _ => return Err("cannot derive Pack: not a struct or an enum"),
        };
        Ok(Self { name, parameters, shape })
    }

    fn implementation(&self) -> String {
        let Self { name, parameters, shape } = self;
        let bounds: String = parameters.iter().map(|it| format!("{it}: {PACK},")).collect();
        let parameters = parameters.join(",");
        let (pack, unpack) = match shape {
            Shape::Struct(all) => {
                (format!("let {} = self; {}", all.pattern(), all.pack()), all.unpack())
            }
            Shape::Enum(variants) => of_variants(variants),
        };
        format!(
            "#[automatically_derived]
            impl<{bounds}> {PACK} for {name}<{parameters}> {{
                fn pack(&self, into: &mut ::clearway_units::packed::Packer) {{ {pack} }}
                fn unpack(from: &mut ::clearway_units::packed::Unpacker<'_>) -> Self {{ {unpack} }}
            }}"
        )
    }
}

const PACK: &str = "::clearway_units::packed::Pack";

/// Generates code that writes and reads the number of a variant, followed by its fields.
fn of_variants(variants: &[Variant]) -> (String, String) {
    let (mut numbers, mut packs, mut unpacks) = (String::new(), String::new(), String::new());
    for (number, variant) in variants.iter().enumerate() {
        numbers += &format!("{} {{ .. }} => {number},", variant.path);
        packs += &format!("{} => {{ {} }}", variant.pattern(), variant.pack());
        // Reads past the end return zeros, so an unknown number also becomes the first variant.
        if number > 0 {
            unpacks += &format!("{number} => {},", variant.unpack());
        }
    }
    let first = variants.first().map(Variant::unpack).unwrap_or_default();
    (
        format!("into.number(match self {{ {numbers} }}); match self {{ {packs} }}"),
        format!("match from.number() {{ {unpacks} _ => {first} }}"),
    )
}

impl Variant {
    fn new(path: String, body: Option<Group>) -> Self {
        let is_named = body.as_ref().is_some_and(|it| it.delimiter() == Delimiter::Brace);
        let fields = body.map(pieces).unwrap_or_default().into_iter().enumerate();
        let name = |(number, mut field): (usize, Tokens)| {
            skip_attributes_and_visibility(&mut field);
            field.next().filter(|_| is_named).map_or(number.to_string(), |name| name.to_string())
        };
        Self { path, fields: fields.map(name).collect() }
    }

    /// Returns a pattern that matches the variant and names its fields `field_0`, `field_1` and so
    /// on.
    fn pattern(&self) -> String {
        let fields = self.fields.iter().enumerate();
        let fields: String = fields.map(|(place, it)| format!("{it}: field_{place},")).collect();
        format!("{} {{ {fields} }}", self.path)
    }

    fn pack(&self) -> String {
        (0..self.fields.len()).map(|place| format!("{PACK}::pack(field_{place}, into);")).collect()
    }

    fn unpack(&self) -> String {
        let fields = self.fields.iter();
        let fields: String = fields.map(|it| format!("{it}: {PACK}::unpack(from),")).collect();
        format!("{} {{ {fields} }}", self.path)
    }
}

fn variants(body: Option<Group>) -> Result<Vec<Variant>, &'static str> {
    let pieces = body.map(pieces).unwrap_or_default();
    let variant = |mut piece: Tokens| {
        skip_attributes_and_visibility(&mut piece);
        let path = piece.next().map(|name| format!("Self::{name}")).unwrap_or_default();
        match piece.next() {
            None => Ok(Variant::new(path, None)),
            Some(TokenTree::Group(fields)) => Ok(Variant::new(path, Some(fields))),
            Some(_) => Err("cannot derive Pack for an enum with explicit discriminants"),
        }
    };
    pieces.into_iter().map(variant).collect()
}

/// Splits a body at its commas, except for those between the parameters of a type.
fn pieces(body: Group) -> Vec<Tokens> {
    let mut depth = 0_i32;
    let mut pieces = vec![TokenStream::new()];
    for token in body.stream() {
        depth += i32::from(is(&token, '<')) - i32::from(is(&token, '>'));
        match pieces.last_mut() {
            Some(piece) if depth > 0 || !is(&token, ',') => piece.extend([token]),
            _ => pieces.push(TokenStream::new()),
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces.into_iter().map(|piece| piece.into_iter().peekable()).collect()
}

fn skip_attributes_and_visibility(tokens: &mut Tokens) {
    loop {
        if tokens.next_if(|token| is(token, '#')).is_some() {
            tokens.next();
        } else if tokens.next_if(|token| token.to_string() == "pub").is_some() {
            tokens.next_if(|token| matches!(token, TokenTree::Group(_)));
        } else {
            return;
        }
    }
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(it) if it.as_char() == sign)
}
