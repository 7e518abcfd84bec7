//! `clearway view --catalogue`.

use clearway_qlog::findings::{CATALOGUE, Entry};
use serde_json::json;

use crate::failure::Failure;
use crate::output;

/// Prints the catalog of findings; the text format is that of `docs/findings.md`, without links.
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
        String::new(),
        "The *estimated cost* (`severity` in JSON, in seconds) is roughly the time that the \
         transfer lost: usually the duration of the problem, or a half or a quarter of it if the \
         problem only slows the transfer. Findings in the same part of the trace usually describe \
         one problem: do not add up their costs. The first finding is the most expensive, and the \
         others often name its mechanism."
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

    /// Replaces each Markdown link with its text.
    fn without_links(text: &str) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some((link, after)) = rest.split_once(')') {
            match link.rsplit_once("](") {
                Some((before, _)) => {
                    let (before, words) = before.rsplit_once('[').unwrap_or((before, ""));
                    result.extend([before, words]);
                }
                None => result.extend([link, ")"]),
            }
            rest = after;
        }
        result + rest
    }

    #[test]
    fn the_page_in_docs_is_this_one_with_links() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/findings.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        let advice = "regenerate it: clearway view --catalogue > docs/findings.md; then restore \
            its links";
        assert_eq!(without_links(written.trim_end()), page(), "{advice}");
    }

    #[test]
    fn links_are_replaced_with_their_texts() {
        assert_eq!(without_links("a [b c](d.md), [e](../f.md) (g)"), "a b c, e (g)");
        assert_eq!(without_links("no [link] (here)"), "no [link] (here)");
    }
}
