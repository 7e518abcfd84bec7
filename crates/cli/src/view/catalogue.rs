//! `clearway view --catalogue`.

use clearway_qlog::findings::{CATALOGUE, Entry};
use serde_json::json;

use crate::failure::Failure;
use crate::output;

/// Prints the catalog of findings; the text format is `docs/findings.md`.
pub(super) fn print(as_json: bool) -> Result<(), Failure> {
    if as_json {
        CATALOGUE.iter().try_for_each(|entry| output::result(&object(entry)))
    } else {
        output::result(&page())
    }
}

fn object(entry: &Entry) -> String {
    json!({
        "id": entry.name,
        "title": entry.title,
        "meaning": entry.meaning,
        "causes": entry.causes,
        "bound": entry.bound,
    })
    .to_string()
}

/// Returns the catalog as a document.
fn page() -> String {
    let mut lines = vec![
        "# Findings of `clearway view --findings`".to_owned(),
        String::new(),
        "Each finding has a name, a headline, a time range, and metrics. In the following, a \
         *clean round trip* is a round trip in which no packet was lost or CE-marked and data was \
         always waiting. L1 to L11 and S1 to S19 are the properties that `clearway lab \
         properties` lists; the limits here are wider, because a trace contains less information \
         than the lab has."
            .to_owned(),
    ];
    for entry in &CATALOGUE {
        lines.extend([
            String::new(),
            format!("## {}: {}", entry.name, entry.title),
            String::new(),
            entry.meaning.to_owned(),
            String::new(),
            format!("- Usual causes: {}", entry.causes),
            format!("- Threshold: {}", entry.bound),
        ]);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn the_page_in_docs_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        let advice = "regenerate it: clearway view --catalogue > docs/findings.md";
        assert_eq!(written.trim_end(), page(), "{advice}");
    }
}
