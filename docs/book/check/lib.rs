//! The pages of the book, so that `cargo test --doc -p clearway-book` compiles their Rust examples.
//!
//! Every page of `docs/book/src` has a line here, and one in `SUMMARY.md`; a test checks both.

/// Includes pages as the documentation of modules.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../src/", $path))]
            mod $name {}
        )*
        #[cfg(test)]
        const PAGES: &[&str] = &[$($path),*];
    };
}

pages! {
    introduction: "introduction.md",
    getting_started: "getting-started.md",
    serving: "serving.md",
    fetching: "fetching.md",
    traces: "traces.md",
    first_connection: "library/first-connection.md",
    http3: "library/http3.md",
    streams_and_datagrams: "library/streams-and-datagrams.md",
    errors_and_cancellation: "library/errors-and-cancellation.md",
    certificates_and_0_rtt: "library/certificates-and-0-rtt.md",
    choosing_a_controller: "library/choosing-a-controller.md",
    tuning: "library/tuning.md",
    quinn_and_h3: "moving/quinn-and-h3.md",
    tokio_quiche: "moving/tokio-quiche.md",
    metrics: "operating/metrics.md",
    qlog: "operating/qlog.md",
    restarts: "operating/restarts.md",
    many_cores: "operating/many-cores.md",
    balancer: "operating/balancer.md",
    dns: "operating/dns.md",
    udp_loss: "operating/udp-loss.md",
    tunnels: "operating/tunnels.md",
    lab: "congestion/lab.md",
    scenario: "congestion/scenario.md",
    property: "congestion/property.md",
    gallery: "congestion/gallery.md",
    controller: "congestion/controller.md",
    architecture: "architecture.md",
    security: "security.md",
    glossary: "glossary.md",
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::PAGES;

    fn source() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../src"))
    }

    /// Adds the Markdown files below `folder`, except the summary.
    fn add_pages(folder: &Path, pages: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                add_pages(&path, pages);
            } else if path.extension().is_some_and(|it| it == "md") {
                let name = path.strip_prefix(source()).expect("a page").to_str().expect("UTF-8");
                pages.insert(name.to_owned());
            }
        }
        pages.remove("SUMMARY.md");
    }

    #[test]
    fn every_page_is_compiled_and_in_the_summary() {
        let mut pages = BTreeSet::new();
        add_pages(source(), &mut pages);
        let compiled: BTreeSet<String> = PAGES.iter().map(ToString::to_string).collect();
        assert_eq!(compiled, pages);
        let summary = fs::read_to_string(source().join("SUMMARY.md")).expect("a summary");
        let listed = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        assert_eq!(listed.map(str::to_owned).collect::<BTreeSet<_>>(), pages);
    }
}
