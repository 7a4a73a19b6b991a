//! The generated parts of the template follow from the code and from the rows in `template/`.

#[test]
fn the_generated_parts_of_the_template_are_current() {
    let source = include_str!("../../../../template.yaml");
    let current = local::generated_template(source).unwrap_or_else(|error| panic!("{error:#}"));
    let line = (source.lines().zip(current.lines())).position(|(stored, current)| stored != current);
    let line = line.map_or(0, |line| line + 1);
    assert!(source == current, "template.yaml is stale from line {line}: run `cargo local template`");
}
