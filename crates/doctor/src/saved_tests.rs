use super::*;
use crate::testing::course;

#[test]
fn what_is_saved_is_read_again() {
    let snapshots = course(3, |_, _| {});
    let file: String = snapshots.iter().map(|it| encode(it).unwrap()).collect();
    assert_eq!(decode(file.as_bytes()).unwrap(), snapshots);
    assert_eq!(decode(b"\n \n").unwrap(), []);
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused_with_the_place() {
    let snapshots = course(2, |_, _| {});
    let lines: Vec<String> = snapshots.iter().map(|it| encode(it).unwrap()).collect();
    let file = lines.concat();
    let whole = [0, lines[0].len() - 1, lines[0].len(), file.len() - 1, file.len()];
    for end in (0..file.len()).filter(|end| !whole.contains(end)) {
        let error = decode(&file.as_bytes()[..end]).unwrap_err();
        assert_eq!(error.line, if end > lines[0].len() { 2 } else { 1 }, "{error}");
        assert!(error.to_string().contains("truncated"), "{error}");
    }
}

#[test]
fn hostile_files_are_refused() {
    let deep = "[".repeat(1 << 20);
    for file in
        [deep.as_bytes(), b"{}", b"\xff\xfe", b"{\"taken\":-1}", b"{\"taken\":1e400}", b"null"]
    {
        let error = decode(file).unwrap_err();
        assert_eq!(error.line, 1);
        assert!(error.source().is_some());
    }
}
