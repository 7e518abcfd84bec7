//! Finds the known word that is closest to a mistyped one.

/// Returns the element of `candidates` that is closest to `word`; `None` if none is close.
///
/// A word is close if at most one letter in three is wrong, missing, added or swapped with its
/// neighbor.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let longest = word.chars().count();
    let measured = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
    let (distance, candidate) = measured.min_by_key(|(distance, _)| *distance)?;
    let length = longest.max(candidate.chars().count());
    (distance * 3 <= length.max(3)).then_some(candidate)
}

/// Returns the number of single-letter edits between the two words (optimal string alignment
/// distance).
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().flat_map(char::to_lowercase).collect();
    let to: Vec<char> = to.chars().flat_map(char::to_lowercase).collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != other);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let is_swapped =
                row > 0 && column > 0 && from[row - 1] == *other && to[column - 1] == *letter;
            if is_swapped {
                best = best.min(before_last[column - 1] + 1);
            }
            current.push(best);
        }
        before_last = core::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(0)
}
