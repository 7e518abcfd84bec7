//! The page as a single file with embedded traces.

use std::io::{self, Write};
use std::path::Path;

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::page::{PAGE, PLACEHOLDER};
use super::trace::Trace;
use crate::failure::Failure;
use crate::output;
use crate::whole_file::{WholeFile, unwritten};

/// Writes the page, with `traces` embedded, to the file `out`.
pub(super) fn write(out: &Path, traces: &[Trace]) -> Result<(), Failure> {
    let written = WholeFile::create(out).and_then(|mut file| {
        fill(&mut file, traces)?;
        file.finish()
    });
    written.map_err(|error| unwritten(out, &error, "--html"))?;
    output::status(&format!("wrote {}; the page can be opened without a network", out.display()));
    Ok(())
}

fn fill(file: &mut impl Write, traces: &[Trace]) -> io::Result<()> {
    let (before, after) = PAGE.split_once(PLACEHOLDER).unwrap_or((PAGE, ""));
    file.write_all(before.as_bytes())?;
    for (number, trace) in traces.iter().enumerate() {
        write!(file, r#"<script type="application/json" id="trace-{number}-header">"#)?;
        // The end of the element and the beginning of a comment start with this character, so it
        // must not occur.
        let header = serde_json::to_string(&trace.model.header)?.replace('<', "\\u003c");
        file.write_all(header.as_bytes())?;
        write!(file, r#"</script><script type="text/plain" id="trace-{number}-columns">"#)?;
        let encoder = EncoderWriter::new(&mut *file, &STANDARD);
        let mut compressor = GzEncoder::new(encoder, Compression::default());
        compressor.write_all(&trace.model.columns)?;
        compressor.finish()?.finish()?;
        file.write_all(b"</script>")?;
    }
    file.write_all(after.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use base64::Engine;
    use clearway_qlog::model::{Model, ModelBuilder};
    use clearway_qlog::read::Reading;

    use super::*;

    #[test]
    fn a_trace_is_embedded_in_the_form_that_the_page_reads() {
        let title = Some("</script><!--".to_owned());
        let Model { header, .. } =
            ModelBuilder::default().finish(&Reading { title, ..Reading::default() }, None, &[]);
        let columns = vec![7; 100_000];
        let model = Model { header: header.clone(), columns: columns.clone() };
        let mut page = Vec::new();
        fill(&mut page, &[Trace { name: "a".to_owned(), model }]).unwrap();
        let page = String::from_utf8(page).unwrap();
        let part = |id: &str| {
            let begin = page.find(&format!("id=\"trace-0-{id}\">")).unwrap();
            let rest = &page[begin..];
            &rest[rest.find('>').unwrap() + 1..rest.find("</script>").unwrap()]
        };
        assert!(!part("header").contains('<'));
        let read: serde_json::Value = serde_json::from_str(part("header")).unwrap();
        assert_eq!(read, serde_json::json!(header));
        let packed = STANDARD.decode(part("columns")).unwrap();
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&*packed).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, columns);
        assert!(!page.contains(PLACEHOLDER));
    }

    #[test]
    fn the_page_has_one_placeholder_for_the_traces() {
        assert_eq!(PAGE.matches(PLACEHOLDER).count(), 1);
    }
}
