//! Generates the types in `viewer/src/protocol.ts` from the types in `header.rs`.

use std::fmt::Write;

use ts_rs::{Config, TS};

use super::header::{
    ColumnPlace, ColumnType, DamageHeader, EndingHeader, FindingHeader, Header, LaneHeader,
    MarksHeader, PacketsHeader, Rows, SeriesHeader, TraceName, Unit, VERSION,
};
use super::packets::{KINDS, NONE};
use crate::read::VantagePoint;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../viewer/src/protocol.ts");

/// Returns the contents of the file.
fn declarations() -> String {
    let kinds = serde_json::to_string(&KINDS).unwrap().replace(',', ", ");
    let mut text = format!(
        "/** The messages from the program to a page. Written by `cargo xtask viewer --types` from crates/qlog/src/model/header.rs. */\n\n\
         export const VERSION = {VERSION};\n\n\
         /** What happened to a packet, by its number in the column `kind`. */\n\
         export const KINDS = {kinds} as const;\n\n\
         /** The row of a mark that does not refer to a packet. */\n\
         export const NO_PACKET = {NONE};\n"
    );
    declare::<VantagePoint>(&mut text);
    declare::<ColumnType>(&mut text);
    declare::<ColumnPlace>(&mut text);
    declare::<Unit>(&mut text);
    declare::<SeriesHeader>(&mut text);
    declare::<LaneHeader>(&mut text);
    declare::<MarksHeader>(&mut text);
    declare::<PacketsHeader>(&mut text);
    declare::<FindingHeader>(&mut text);
    declare::<DamageHeader>(&mut text);
    declare::<EndingHeader>(&mut text);
    declare::<Header>(&mut text);
    declare::<Rows>(&mut text);
    declare::<TraceName>(&mut text);
    text
}

/// Adds a type with its documentation. 64-bit numbers are JSON numbers here.
fn declare<T: TS>(text: &mut String) {
    let config = Config::new().with_large_int("number");
    let documentation = T::docs().unwrap_or_default();
    let declared = format!("\n{documentation}export {}\n", T::decl(&config));
    let mut is_inside = false;
    for line in declared
        .replace("/**\n * ", "/** ")
        .replace("\n */", " */")
        .replace(", };", ",\n};")
        .lines()
    {
        is_inside &= line != "};";
        let indent = if is_inside { "  " } else { "" };
        writeln!(text, "{indent}{}", line.trim_end()).unwrap();
        is_inside |= line.ends_with("{ ");
    }
}

#[test]
fn the_types_of_the_viewer_match_those_of_the_header() {
    let committed = std::fs::read_to_string(PATH).unwrap_or_default();
    assert_eq!(
        committed,
        declarations(),
        "viewer/src/protocol.ts is out of date; run `cargo xtask viewer --types`"
    );
}

#[test]
#[ignore = "writes viewer/src/protocol.ts; `cargo xtask viewer --types` runs it"]
fn write_the_types_of_the_viewer() {
    std::fs::write(PATH, declarations()).unwrap();
}
