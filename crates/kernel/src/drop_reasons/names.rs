//! The kernel's names for its drop reasons, from BTF or else from the format of the event in
//! tracefs.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::{fs, path::Path};

const BTF: &str = "/sys/kernel/btf/vmlinux";
const FORMATS: [&str; 2] = [
    "/sys/kernel/tracing/events/skb/kfree_skb/format",
    "/sys/kernel/debug/tracing/events/skb/kfree_skb/format",
];
const ENUMERATION: &[u8] = b"skb_drop_reason";
const PREFIX: &str = "SKB_DROP_REASON_";
/// Entries at the end of the enumeration that are not drop reasons.
const NO_REASONS: [&str; 2] = ["MAX", "SUBSYS_MASK"];

/// Returns the names of the reasons, by number.
pub(super) fn read() -> io::Result<BTreeMap<u32, String>> {
    let of_btf = fs::read(Path::new(BTF)).map(|bytes| of_btf(&bytes));
    if let Ok(Some(names)) = &of_btf {
        return Ok(names.clone());
    }
    let formats = FORMATS.iter().filter_map(|path| fs::read_to_string(path).ok());
    of_formats(formats).ok_or_else(|| {
        of_btf.err().unwrap_or_else(|| {
            io::Error::new(ErrorKind::Unsupported, "this kernel has no drop reasons")
        })
    })
}

// Kinds of BTF types that are followed by additional data, which has a size per member or in total.
const ARRAY: u32 = 3;
const ENUM: u32 = 6;
const MEMBERS: [(u32, usize); 6] = [(4, 12), (5, 12), (ENUM, 8), (13, 8), (15, 12), (19, 12)];
const WHOLE: [(u32, usize); 4] = [(1, 4), (ARRAY, 12), (14, 4), (17, 4)];

/// Returns the names of the enumeration of reasons among the kernel's types.
fn of_btf(bytes: &[u8]) -> Option<BTreeMap<u32, String>> {
    let word = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let place = |at| usize::try_from(word(bytes, at)?).ok();
    let header = place(4)?;
    let part = |begin: usize, len: usize| {
        let begin = header.checked_add(begin)?;
        bytes.get(begin..begin.checked_add(len)?)
    };
    let mut types = part(place(8)?, place(12)?)?;
    let texts = part(place(16)?, place(20)?)?;
    let text = |at: u32| texts.get(usize::try_from(at).ok()?..)?.split(|byte| *byte == 0).next();
    while !types.is_empty() {
        let (name, information) = (word(types, 0)?, word(types, 4)?);
        let (kind, count) = (information >> 24 & 0x1f, usize::from(information as u16));
        let of =
            |kinds: &[(u32, usize)]| kinds.iter().find(|(it, _)| *it == kind).map(|(_, len)| *len);
        let len = of(&WHOLE).or_else(|| of(&MEMBERS).map(|len| len * count)).unwrap_or(0);
        let content = types.get(12..12 + len)?;
        if kind == ENUM && text(name) == Some(ENUMERATION) {
            let values = content.chunks_exact(8).filter_map(|value| {
                let name = core::str::from_utf8(text(word(value, 0)?)?).ok()?;
                Some((word(value, 4)?, reason(name)?))
            });
            return Some(values.collect());
        }
        types = &types[12 + len..];
    }
    None
}

/// Returns a reason's name without its prefix; `None` for other names.
fn reason(name: &str) -> Option<String> {
    let reason = name.strip_prefix(PREFIX)?;
    (!NO_REASONS.contains(&reason)).then(|| reason.to_owned())
}

/// Returns the names in the first event format that contains any.
fn of_formats(mut formats: impl Iterator<Item = String>) -> Option<BTreeMap<u32, String>> {
    formats.find_map(|text| Some(of_format(&text)).filter(|names| !names.is_empty()))
}

/// Parses the format's symbols, such as `{ 2, "NOT_SPECIFIED" }`.
fn of_format(text: &str) -> BTreeMap<u32, String> {
    let symbols = text.split('{').skip(1).filter_map(|part| part.split_once('}'));
    let symbol = |symbol: &str| {
        let (number, name) = symbol.split_once(',')?;
        let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
        let is_reason = !name.is_empty() && !NO_REASONS.contains(&name);
        is_reason.then_some((number.trim().parse().ok()?, name.to_owned()))
    };
    symbols.filter_map(|(content, _)| symbol(content)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns BTF data with a structure followed by the enumeration.
    fn btf() -> Vec<u8> {
        let texts =
            b"\0skb_drop_reason\0SKB_CONSUMED\0SKB_DROP_REASON_NO_SOCKET\0SKB_DROP_REASON_MAX\0";
        let structure = [0, 4 << 24 | 1, 4, 0, 0, 0];
        let enumeration = [1, 6 << 24 | 3, 4, 17, 1, 30, 3, 56, 4];
        let types: Vec<u32> = structure.into_iter().chain(enumeration).collect();
        let types: Vec<u8> = types.into_iter().flat_map(u32::to_ne_bytes).collect();
        let (types_len, texts_len) = (types.len() as u32, texts.len() as u32);
        let header = [0x0001_eb9f, 24, 0, types_len, types_len, texts_len];
        let header: Vec<u8> = header.into_iter().flat_map(u32::to_ne_bytes).collect();
        [&header[..], &types, texts].concat()
    }

    #[test]
    fn the_enumeration_is_found_among_the_types() {
        let expected = BTreeMap::from([(3, "NO_SOCKET".to_owned())]);
        assert_eq!(of_btf(&btf()), Some(expected));
        for len in 0..btf().len() {
            assert_eq!(of_btf(&btf()[..len]), None, "{len}");
        }
    }

    #[test]
    fn the_format_has_them_too() {
        let format = "print fmt: \"skbaddr=%p reason: %s\", REC->a, __print_symbolic(REC->reason, \
            { 2, \"NOT_SPECIFIED\" }, { 3, \"NO_SOCKET\" }, { 0, \"\" }, { 9, \"MAX\" })";
        let names = of_format(format);
        assert_eq!(names.len(), 2);
        assert_eq!(names[&3], "NO_SOCKET");
        assert!(of_format("{ 2, ").is_empty() && of_format("{ x, \"a\" }").is_empty());
    }

    #[test]
    fn a_format_without_names_is_passed_over() {
        let formats = ["print fmt: \"%s\"", "{ 3, \"NO_SOCKET\" }", "{ 4, \"X\" }"];
        let names = of_formats(formats.into_iter().map(str::to_owned));
        assert_eq!(names, Some(BTreeMap::from([(3, "NO_SOCKET".to_owned())])));
        assert_eq!(of_formats(std::iter::once(String::new())), None);
    }

    #[test]
    fn this_kernel_names_a_full_buffer_if_it_has_reasons() {
        if let Ok(names) = read() {
            assert!(names.values().any(|name| name == "SOCKET_RCVBUFF"), "{names:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(place in 0..200_usize, value: u8, text in "[{}0-9,\" A-Z]{0,60}") {
            let mut bytes = btf();
            let place = place % bytes.len();
            bytes[place] = value;
            let _ = (of_btf(&bytes), of_format(&text));
        }
    }
}
