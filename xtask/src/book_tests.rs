use super::*;

/// Returns mdbook's message for a book with one page.
fn message(page: &str, text: &str) -> String {
    let chapter = json!({ "Chapter": {
        "name": "Page", "content": text, "number": [1], "sub_items": [], "path": page,
        "source_path": page, "parent_names": [],
    }});
    json!([{}, { "items": [chapter] }]).to_string()
}

/// Returns the content of all chapters by path.
fn contents(items: &Value) -> BTreeMap<String, String> {
    let mut contents = BTreeMap::new();
    for item in items.as_array().expect("a list") {
        let Some(chapter) = item.get("Chapter") else { continue };
        let text = |name: &str| chapter[name].as_str().expect("text").to_owned();
        contents.insert(text("path"), text("content"));
        contents.extend(self::contents(&chapter["sub_items"]));
    }
    contents
}

fn completed(page: &str, text: &str) -> BTreeMap<String, String> {
    let book = complete(&message(page, text), &root()).expect("a book");
    contents(&book["items"])
}

#[test]
fn documents_that_a_page_links_to_are_added() {
    let text = "[a](../../../metrics.md#quic) [b](../serving.md) [c](https://example.org/c.md) \
                [d [e]](../../../fleet/backends.toml)\n\n    [f](../../../fleet.md)\n";
    let contents = completed("library/x.md", text);
    let expected = "[a](../documents/docs/metrics.md#quic) [b](../serving.md) [c](https://example.org/c.md) \
                    d [e]\n\n    [f](../../../fleet.md)\n";
    assert_eq!(contents["library/x.md"], expected);
    // The other document links to this one.
    assert!(contents.contains_key("documents/docs/doctor.md"), "{:?}", contents.keys());
}

#[test]
fn links_of_the_whole_tree_lead_to_pages() {
    let text =
        "[a](../../../README.md) [b](../../decisions/README.md) [c](../../book/src/serving.md)";
    let contents = completed("introduction.md", text);
    assert!(contents.len() > 100, "{}", contents.len());
    let mut faults = Vec::new();
    for (page, text) in &contents {
        for link in links(text) {
            let (path, _) = split_fragment(&text[link.target]);
            let file = join(folder_of(page), path);
            let is_known = contents.contains_key(&file) || root().join(SOURCE).join(&file).exists();
            if !path.is_empty() && !path.contains(':') && !is_known {
                faults.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn pictures_are_embedded() {
    let contents = completed("x.md", "![demo](../../pictures/demo.svg)");
    assert!(contents["x.md"].starts_with("![demo](data:image/svg+xml;base64,PHN2Zy"));
    // RFC 4648 §10.
    let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
    for (content, text) in vectors {
        assert_eq!(base64(content.as_bytes()), text);
    }
}

#[test]
fn documents_of_a_folder_are_below_its_index() {
    let message = message("x.md", "[a](../../decisions/README.md)");
    let book = complete(&message, &root()).expect("a book");
    let items = book["items"].as_array().expect("a list");
    let index =
        items.iter().find(|it| it["Chapter"]["path"] == "documents/docs/decisions/index.md");
    let children = index.expect("the index")["Chapter"]["sub_items"].as_array().expect("a list");
    assert!(children.len() > 50, "{}", children.len());
}
