//! Updates the sections of the documentation that a benchmark or the simulation writes.

/// Replaces the text between the markers of `section` in this page of `docs/`.
pub(crate) fn put(page: &str, section: &str, text: &str) {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/{}"), page);
    let page = std::fs::read_to_string(&path).expect("the page");
    let (begin, end) = (format!("<!-- {section}, written by the "), format!("<!-- end of {section} -->"));
    let (before, rest) = page.split_once(&begin).expect("the first mark");
    let (author, rest) = rest.split_once(" -->").expect("the end of the first mark");
    let (_, after) = rest.split_once(&end).expect("the second mark");
    std::fs::write(path, format!("{before}{begin}{author} -->\n\n{text}\n{end}{after}")).expect("the write succeeds");
}
