//! An object file with an XDP program of two instructions, for `ip link set … xdp obj`. It is
//! generated without a compiler.

/// The name of the section that contains the program.
pub(super) const SECTION: &str = "xdp";

/// `r0 = XDP_DROP; exit`, as the kernel encodes eBPF instructions.
const PROGRAM: [u8; 16] = [0xb7, 0, 0, 0, 1, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
/// The names used in the file. Each follows a zero octet.
const NAMES: &[u8] = b"\0xdp\0license\0.symtab\0.strtab\0drop\0";
const HEADER_LEN: u64 = 64;
const SECTION_LEN: u16 = 64;
const SYMBOL_LEN: u64 = 24;
/// The ELF machine number of eBPF.
const MACHINE: u16 = 247;

/// A section, as described in the section header table.
#[derive(Default)]
struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    content: Vec<u8>,
    link: u32,
    info: u32,
    align: u64,
    entry: u64,
}

/// Returns an object file (64-bit little-endian ELF) that contains the program.
pub(super) fn dropping() -> Vec<u8> {
    // Section types: 1 program, 2 symbols, 3 names. Flags: 2 loaded into memory, 4 executable.
    let sections = [
        Section::default(),
        Section {
            name: SECTION,
            kind: 1,
            flags: 6,
            content: PROGRAM.into(),
            align: 8,
            ..Section::default()
        },
        Section {
            name: "license",
            kind: 1,
            flags: 3,
            content: b"GPL\0".into(),
            align: 4,
            ..Section::default()
        },
        Section {
            name: ".symtab",
            kind: 2,
            content: symbols(),
            link: 4,
            info: 1,
            align: 8,
            entry: SYMBOL_LEN,
            ..Section::default()
        },
        Section { name: ".strtab", kind: 3, content: NAMES.into(), align: 1, ..Section::default() },
    ];
    let (mut content, mut table) = (Vec::new(), Vec::new());
    for section in &sections {
        pad(&mut content);
        let offset = HEADER_LEN + content.len() as u64;
        table.extend(position(section.name).to_le_bytes());
        table.extend(section.kind.to_le_bytes());
        for number in [section.flags, 0, offset, section.content.len() as u64] {
            table.extend(number.to_le_bytes());
        }
        table.extend(section.link.to_le_bytes());
        table.extend(section.info.to_le_bytes());
        table.extend(section.align.to_le_bytes());
        table.extend(section.entry.to_le_bytes());
        content.extend(&section.content);
    }
    pad(&mut content);
    let header = header(HEADER_LEN + content.len() as u64, sections.len() as u16);
    [header, content, table].concat()
}

/// Pads to a multiple of eight octets, where sections begin.
fn pad(content: &mut Vec<u8>) {
    content.resize(content.len().next_multiple_of(8), 0);
}

/// Returns the file header for a table of `sections` sections, the last of which contains the
/// names.
fn header(table: u64, sections: u16) -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.resize(16, 0);
    // The file type: relocatable.
    header.extend(1_u16.to_le_bytes());
    header.extend(MACHINE.to_le_bytes());
    header.extend(1_u32.to_le_bytes());
    for number in [0, 0, table] {
        header.extend(u64::to_le_bytes(number));
    }
    header.extend(0_u32.to_le_bytes());
    for number in [HEADER_LEN as u16, 0, 0, SECTION_LEN, sections, sections.saturating_sub(1)] {
        header.extend(number.to_le_bytes());
    }
    header
}

/// Returns the symbol table: the empty symbol, and the program as a global function in the first
/// section.
fn symbols() -> Vec<u8> {
    let mut symbols = vec![0; SYMBOL_LEN as usize];
    symbols.extend(position("drop").to_le_bytes());
    symbols.extend([0x12, 0, 1, 0]);
    symbols.extend(0_u64.to_le_bytes());
    symbols.extend((PROGRAM.len() as u64).to_le_bytes());
    symbols
}

/// Returns the offset of a name in [`NAMES`].
fn position(name: &str) -> u32 {
    let wanted = [name.as_bytes(), &[0]].concat();
    let found = NAMES.windows(wanted.len()).position(|window| window == wanted);
    found.unwrap_or_default() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_sections_leads_to_the_program() {
        let file = dropping();
        assert!(file.starts_with(b"\x7fELF"));
        let long = |at: usize| {
            usize::try_from(u64::from_le_bytes(file[at..at + 8].try_into().unwrap())).unwrap()
        };
        let program = long(40) + usize::from(SECTION_LEN);
        let (offset, length) = (long(program + 24), long(program + 32));
        assert_eq!(file[offset..offset + length], PROGRAM);
        assert_eq!(file.len(), long(40) + 5 * usize::from(SECTION_LEN));
    }

    #[test]
    fn names_are_found_where_they_begin() {
        assert_eq!([position(""), position("xdp"), position("license")], [0, 1, 5]);
    }
}
